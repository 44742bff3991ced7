-- What jobs cost per month (UTC) and team, project, owner and experiment. As metered: [`trainfare
-- chargeback`](bills.md#charging-a-month) adds idle time, and charges lines of bills in the place of what they cover.

SELECT
    toStartOfMonth(hour) AS month,
    team,
    project,
    owner,
    experiment,
    uniqExactIf(h.job_id, h.cost_usd != 0 OR h.gpu_milli_ms != 0) AS jobs,
    toFloat64(sum(toInt128(h.gpu_milli_ms))) / 3600000000 AS gpu_h,
    sum(h.cost_usd) AS cost_usd,
    sum(h.cost_usd - h.license_cost_usd - h.labor_cost_usd) AS infra_cost_usd,
    sum(h.gpu_cost_usd) AS gpu_cost_usd,
    sum(h.compute_cost_usd) AS compute_cost_usd,
    sum(h.network_cost_usd) AS network_cost_usd,
    sum(h.storage_cost_usd) AS storage_cost_usd,
    sum(h.license_cost_usd) AS license_cost_usd,
    sum(h.labor_cost_usd) AS labor_cost_usd,
    sum(h.overhead_cost_usd) AS overhead_cost_usd,
    sum(h.compliance_cost_usd) AS compliance_cost_usd,
    sum(h.lost_cost_usd) AS lost_cost_usd
FROM cost_hours AS h
GROUP BY month, team, project, owner, experiment
HAVING jobs > 0
