-- `node_hour_balance` by hour, team, cluster, GPU type and instance type: `idle_cost_usd` is what no job pays,
-- `unattributed_cost_usd` the part of it that was used.

SELECT
    hour,
    team,
    cluster,
    gpu_type,
    instance_type,
    uniqExact(b.node) AS nodes,
    sum(b.paid_ms) AS paid_ms,
    sum(b.node_cost_usd) AS node_cost_usd,
    sum(b.job_cost_usd) AS job_cost_usd,
    sum(b.unattributed_cost_usd) AS unattributed_cost_usd,
    sum(b.idle_cost_usd) AS idle_cost_usd,
    sum(b.overcommitted_cost_usd) AS overcommitted_cost_usd
FROM node_hour_balance AS b
GROUP BY hour, team, cluster, gpu_type, instance_type
