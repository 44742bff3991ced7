-- What may be too large. `subject` `job`: at least one sampled GPU-hour, and a productive share (`ratio`) under one half.
-- `subject` `node_type` (instance type, or GPU type): jobs held half of its paid GPU-time at most. `gpu_h` is what the
-- ratio is a share of; the cost is of the job's GPUs, or of the nodes.

SELECT
    'job' AS subject,
    u.job_id AS name,
    j.team AS team,
    toFloat64(u.productive_ms) / toFloat64(u.sampled_ms) AS ratio,
    toFloat64(u.sampled_ms) / 3600000 AS gpu_h,
    c.cost_usd AS cost_usd
FROM
(
    SELECT job_id, sum(toInt128(productive_gpu_ms)) AS productive_ms, sum(toInt128(sampled_gpu_s)) * 1000 AS sampled_ms
    FROM job_usage_minutes FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id
    HAVING sampled_ms >= 3600000 AND 2 * productive_ms < sampled_ms
) AS u
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = u.job_id
LEFT ANY JOIN
(
    SELECT job_id, sum(toDecimal128(cost_usd, 9)) AS cost_usd
    FROM job_minutes FINAL WHERE quantity != 0 AND component = 'gpu' GROUP BY job_id
) AS c ON c.job_id = u.job_id
UNION ALL
SELECT
    'node_type',
    if(b.instance_type = '', b.gpu_type, b.instance_type) AS name,
    '' AS team,
    toFloat64(sum(b.used_gpu_milli_ms)) / toFloat64(sum(toInt128(b.gpu_milli_ms))),
    toFloat64(sum(toInt128(b.gpu_milli_ms))) / 3600000000,
    sum(b.node_cost_usd)
FROM node_hour_balance AS b
GROUP BY name
HAVING sum(toInt128(b.gpu_milli_ms)) > 0 AND 2 * sum(b.used_gpu_milli_ms) <= sum(toInt128(b.gpu_milli_ms))
