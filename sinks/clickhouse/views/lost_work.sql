-- [Lost work](cost_metrics.md#lost-work) by hour, beside the price fields that held then: `lost_cost_usd` is all of it,
-- `retry_cost_usd` the part that is retry overhead. `retried`: a later attempt followed. `state` and `reason` say how the
-- attempt ended.

-- A job's last attempt was not retried: only its start-up is overhead, if it is itself a retry: the rows with phase
-- `starting`, whatever became of it.

SELECT
    h.hour AS hour,
    h.job_id AS job_id,
    h.attempt AS attempt,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    a.state AS state,
    a.reason AS reason,
    h.attempt < n.attempt AS retried,
    h.lost_gpu_milli_ms AS lost_gpu_milli_ms,
    h.lost_cost_usd AS lost_cost_usd,
    multiIf(h.attempt < n.attempt, h.lost_cost_usd, h.attempt = n.first_attempt, toDecimal64(0, 9), h.starting_lost_cost_usd)
        AS retry_cost_usd
FROM
(
    SELECT * FROM job_hours FINAL
    WHERE (lost_gpu_milli_ms != 0 OR lost_cost_usd != 0) AND NOT startsWith(job_id, 'trainfare-canary.')
) AS h
LEFT ANY JOIN (SELECT job_id, attempt, state, reason FROM attempts FINAL) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt
LEFT ANY JOIN
(
    SELECT job_id, min(attempts.attempt) AS first_attempt, max(attempts.attempt) AS attempt FROM attempts FINAL GROUP BY job_id
) AS n ON n.job_id = h.job_id
