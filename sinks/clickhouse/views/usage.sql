-- `job_usage_minutes` of all nodes of an attempt.

SELECT
    minute,
    job_id,
    attempt,
    sum(u.sampled_gpu_s) AS sampled_gpu_s,
    sum(u.productive_gpu_ms) AS productive_gpu_ms,
    sum(u.sm_gpu_ms) AS sm_gpu_ms,
    sum(u.sm_sampled_gpu_s) AS sm_sampled_gpu_s,
    sum(u.tensor_gpu_ms) AS tensor_gpu_ms,
    sum(u.tensor_sampled_gpu_s) AS tensor_sampled_gpu_s,
    max(u.memory_used_mib_max) AS memory_used_mib_max,
    max(u.power_w_max) AS power_w_max
FROM job_usage_minutes AS u FINAL
WHERE u.sampled_gpu_s != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
GROUP BY minute, job_id, attempt
