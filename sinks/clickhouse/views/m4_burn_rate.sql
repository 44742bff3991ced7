-- What burns now, under each level; past hours are in `trainfare costs --metric m4`. Of a job its newest burn rates, of other levels
-- [those of several jobs](burn_rates.md#of-several-jobs).

-- While a job burns, its rows are 10 minutes apart at most: one without a row for 11 burns nothing.

WITH (SELECT max(time) FROM burn_rates WHERE NOT startsWith(job_id, 'trainfare-canary.')) AS newest, toStartOfMinute(newest) AS until
SELECT
    'job' AS level,
    job_id AS name,
    time,
    toDecimal128(usd_per_hour, 9) AS usd_per_hour,
    toDecimal128(usd_per_hour_15m, 9) AS usd_per_hour_15m,
    toDecimal128(usd_per_hour_1h, 9) AS usd_per_hour_1h,
    toDecimal128(usd_per_hour_6h, 9) AS usd_per_hour_6h,
    toDecimal128(expected_usd_per_hour, 9) AS expected_usd_per_hour,
    toDecimal128(usd_per_hour_now, 9) AS usd_per_hour_now
FROM burn_now
UNION ALL
SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    max(b.time) AS time,
    sum(b.usd_5m) * 12 AS usd_per_hour,
    sum(b.usd_15m) * 4 AS usd_per_hour_15m,
    sum(b.usd_1h) AS usd_per_hour_1h,
    sum(b.usd_6h) / 6 AS usd_per_hour_6h,
    sum(b.expected) AS expected_usd_per_hour,
    sum(b.now) AS usd_per_hour_now
FROM
(
    SELECT
        job_id,
        time,
        toDecimal128(0, 9) AS usd_5m,
        toDecimal128(0, 9) AS usd_15m,
        toDecimal128(0, 9) AS usd_1h,
        toDecimal128(0, 9) AS usd_6h,
        toDecimal128(expected_usd_per_hour, 9) AS expected,
        toDecimal128(usd_per_hour_now, 9) AS now
    FROM burn_now
    WHERE time > newest - INTERVAL 11 MINUTE
    UNION ALL
    SELECT
        job_id,
        toDateTime64(max(minute), 3, 'UTC') AS time,
        toDecimal128(sumIf(cost_usd, minute >= until - INTERVAL 5 MINUTE), 9),
        toDecimal128(sumIf(cost_usd, minute >= until - INTERVAL 15 MINUTE), 9),
        toDecimal128(sumIf(cost_usd, minute >= until - INTERVAL 1 HOUR), 9),
        toDecimal128(sum(cost_usd), 9),
        toDecimal128(0, 9),
        toDecimal128(0, 9)
    FROM job_minutes FINAL
    WHERE minute >= until - INTERVAL 6 HOUR AND minute < until AND quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id
) AS b
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = b.job_id
ARRAY JOIN
[
    ('owner', j.owner),
    ('team', j.team),
    ('project', j.project),
    ('experiment', j.experiment),
    ('cluster', j.cluster),
    ('region', j.region),
    ('purchase', toString(j.purchase))
] AS level_name
GROUP BY level, name
