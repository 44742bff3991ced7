-- Everything of one attempt, also of one without any cost.

SELECT
    job_id,
    attempt,
    sum(toDecimal128(s.gpu_cost_usd, 9) + toDecimal128(s.compute_cost_usd, 9) + toDecimal128(s.network_cost_usd, 9) + toDecimal128(s.storage_cost_usd, 9) + toDecimal128(s.license_cost_usd, 9) + toDecimal128(s.labor_cost_usd, 9) + toDecimal128(s.overhead_cost_usd, 9) + toDecimal128(s.compliance_cost_usd, 9)) AS cost_usd,
    sum(s.gpu_cost_usd) AS gpu_cost_usd,
    sum(s.compute_cost_usd) AS compute_cost_usd,
    sum(s.network_cost_usd) AS network_cost_usd,
    sum(s.storage_cost_usd) AS storage_cost_usd,
    sum(s.license_cost_usd) AS license_cost_usd,
    sum(s.labor_cost_usd) AS labor_cost_usd,
    sum(s.overhead_cost_usd) AS overhead_cost_usd,
    sum(s.compliance_cost_usd) AS compliance_cost_usd,
    sum(s.lost_cost_usd) AS lost_cost_usd,
    sum(toInt128(s.gpu_milli_ms)) AS gpu_milli_ms,
    sum(toInt128(s.productive_gpu_ms)) AS productive_gpu_ms,
    sum(toInt128(s.tensor_gpu_ms)) AS tensor_gpu_ms,
    sum(toInt128(s.wall_clock_ms)) AS wall_clock_ms,
    sum(toInt128(s.lost_gpu_milli_ms)) AS lost_gpu_milli_ms
FROM
(
    SELECT job_id, attempt, gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, license_cost_usd, labor_cost_usd, overhead_cost_usd,
        compliance_cost_usd, lost_cost_usd, gpu_milli_ms, productive_gpu_ms, tensor_gpu_ms, wall_clock_ms, lost_gpu_milli_ms
    FROM job_hours FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
    UNION ALL
    SELECT job_id, attempt, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    FROM attempts FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
) AS s
GROUP BY job_id, attempt
