-- What burns now: `burn_now` under each level; what was burnt in past hours is `trainfare costs --metric m4`. A job without
-- a row for 11 min burns nothing.

-- While a job burns, its rows are 10 minutes apart at most.

SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    max(b.time) AS time,
    sum(b.usd_per_hour) AS usd_per_hour,
    sum(b.usd_per_hour_15m) AS usd_per_hour_15m,
    sum(b.usd_per_hour_1h) AS usd_per_hour_1h,
    sum(b.usd_per_hour_6h) AS usd_per_hour_6h,
    sum(b.expected_usd_per_hour) AS expected_usd_per_hour
FROM burn_now AS b
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = b.job_id
ARRAY JOIN
[
    ('job', b.job_id),
    ('owner', j.owner),
    ('team', j.team),
    ('project', j.project),
    ('experiment', j.experiment),
    ('cluster', j.cluster),
    ('region', j.region),
    ('purchase', toString(j.purchase))
] AS level_name
WHERE level_name.1 = 'job' OR b.time > (SELECT max(time) FROM burn_rates WHERE NOT startsWith(job_id, 'trainfare-canary.')) - INTERVAL 11 MINUTE
GROUP BY level, name
