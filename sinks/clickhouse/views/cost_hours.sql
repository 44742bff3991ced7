-- [`job_hours`](tables.md#job_hours) with the dimensions of the job beside each row, and `cost_usd`, all components together.

-- Hours remain when minutes are deleted; where both have a sum, it is the same to the nano-dollar. A row of zeros stands
-- for none.

SELECT
    h.hour AS hour,
    h.job_id AS job_id,
    h.attempt AS attempt,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.labels AS labels,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    h.wall_clock_ms AS wall_clock_ms,
    h.queued_ms AS queued_ms,
    h.starting_ms AS starting_ms,
    h.gpu_milli_ms AS gpu_milli_ms,
    h.sampled_gpu_ms AS sampled_gpu_ms,
    h.productive_gpu_ms AS productive_gpu_ms,
    h.tensor_gpu_ms AS tensor_gpu_ms,
    h.tensor_sampled_gpu_ms AS tensor_sampled_gpu_ms,
    h.lost_gpu_milli_ms AS lost_gpu_milli_ms,
    h.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    toDecimal128(h.gpu_cost_usd, 9) + toDecimal128(h.compute_cost_usd, 9) + toDecimal128(h.network_cost_usd, 9) + toDecimal128(h.storage_cost_usd, 9) + toDecimal128(h.license_cost_usd, 9) + toDecimal128(h.labor_cost_usd, 9) + toDecimal128(h.overhead_cost_usd, 9) + toDecimal128(h.compliance_cost_usd, 9) AS cost_usd,
    h.gpu_cost_usd AS gpu_cost_usd,
    h.compute_cost_usd AS compute_cost_usd,
    h.network_cost_usd AS network_cost_usd,
    h.storage_cost_usd AS storage_cost_usd,
    h.license_cost_usd AS license_cost_usd,
    h.labor_cost_usd AS labor_cost_usd,
    h.overhead_cost_usd AS overhead_cost_usd,
    h.compliance_cost_usd AS compliance_cost_usd,
    h.lost_cost_usd AS lost_cost_usd,
    h.starting_lost_cost_usd AS starting_lost_cost_usd
FROM
(
    SELECT * FROM job_hours FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
        AND (wall_clock_ms != 0 OR queued_ms != 0 OR gpu_milli_ms != 0 OR sampled_gpu_ms != 0
         OR gpu_cost_usd + compute_cost_usd + network_cost_usd + storage_cost_usd + license_cost_usd + labor_cost_usd + overhead_cost_usd + compliance_cost_usd != 0)
) AS h
LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment, labels FROM jobs FINAL) AS j ON j.job_id = h.job_id
