-- The newest burn rate of each job. A job that ended burns less and less and then has a row of zeros.

SELECT
    job_id,
    max(b.time) AS time,
    argMax(b.usd_per_hour, b.time) AS usd_per_hour,
    argMax(b.usd_per_hour_15m, b.time) AS usd_per_hour_15m,
    argMax(b.usd_per_hour_1h, b.time) AS usd_per_hour_1h,
    argMax(b.usd_per_hour_6h, b.time) AS usd_per_hour_6h,
    argMax(b.expected_usd_per_hour, b.time) AS expected_usd_per_hour,
    argMax(b.usd_per_hour_now, b.time) AS usd_per_hour_now,
    argMax(b.ratio_15m, b.time) AS ratio_15m
FROM (SELECT * FROM burn_rates FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')) AS b
GROUP BY b.job_id
