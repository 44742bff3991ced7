-- Everything of one job, also of one without any cost. `gpu_s` is paid GPU-time. Infrastructure (`infra_cost_usd`) is all
-- but licence and labour. `lost_cost_usd` is [lost work](cost_metrics.md#lost-work). `billed_usd` and `effective_usd` are
-- [what bills put on it](bills.md#billed-cost-of-a-job), null where none is loaded. It is `provisional` until bills cover
-- all that a provider bills of it.

SELECT
    j.job_id AS job_id,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.state AS state,
    j.attempts AS attempts,
    toDecimal128(j.wall_clock_ms, 3) / 1000 AS wall_clock_s,
    toDecimal128(c.gpu_milli_ms, 6) / 1000000 AS gpu_s,
    toDecimal128(c.productive_gpu_ms, 3) / 1000 AS productive_gpu_s,
    c.cost_usd AS cost_usd,
    c.gpu_cost_usd AS gpu_cost_usd,
    c.compute_cost_usd AS compute_cost_usd,
    c.network_cost_usd AS network_cost_usd,
    c.storage_cost_usd AS storage_cost_usd,
    c.license_cost_usd AS license_cost_usd,
    c.labor_cost_usd AS labor_cost_usd,
    c.overhead_cost_usd AS overhead_cost_usd,
    c.compliance_cost_usd AS compliance_cost_usd,
    c.cost_usd - c.license_cost_usd - c.labor_cost_usd AS infra_cost_usd,
    c.lost_cost_usd AS lost_cost_usd,
    j.labels AS labels,
    j.started AS started,
    j.ended AS ended,
    if(b.job_id = '', NULL, b.billed_usd) AS billed_usd,
    if(b.job_id = '', NULL, b.effective_usd) AS effective_usd,
    b.only_metered_usd != 0
        OR b.metered_usd != c.gpu_cost_usd + c.compute_cost_usd + c.network_cost_usd + c.storage_cost_usd AS provisional
FROM (SELECT * FROM jobs FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')) AS j
LEFT ANY JOIN
(
    SELECT
        job_id,
        sum(t.cost_usd) AS cost_usd,
        sum(t.gpu_cost_usd) AS gpu_cost_usd,
        sum(t.compute_cost_usd) AS compute_cost_usd,
        sum(t.network_cost_usd) AS network_cost_usd,
        sum(t.storage_cost_usd) AS storage_cost_usd,
        sum(t.license_cost_usd) AS license_cost_usd,
        sum(t.labor_cost_usd) AS labor_cost_usd,
        sum(t.overhead_cost_usd) AS overhead_cost_usd,
        sum(t.compliance_cost_usd) AS compliance_cost_usd,
        sum(t.lost_cost_usd) AS lost_cost_usd,
        sum(t.gpu_milli_ms) AS gpu_milli_ms,
        sum(t.productive_gpu_ms) AS productive_gpu_ms
    FROM attempt_costs AS t
    GROUP BY job_id
) AS c ON c.job_id = j.job_id
LEFT ANY JOIN
(
    SELECT
        job_id,
        sum(m.metered_usd) AS metered_usd,
        sum(m.only_metered_usd) AS only_metered_usd,
        sum(m.billed_usd) AS billed_usd,
        sum(m.effective_usd) AS effective_usd
    FROM billed_jobs AS m
    GROUP BY job_id
) AS b ON b.job_id = j.job_id
