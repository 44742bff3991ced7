-- Nodes with GPUs that were paid for a whole day (UTC) on which no job held any of them and no sample without a job saw
-- work. [What to do](runbook.md#idle-nodes).

SELECT
    toDate(b.hour) AS day,
    b.node AS node,
    argMax(b.team, b.hour) AS team,
    argMax(b.cluster, b.hour) AS cluster,
    argMax(b.gpu_type, b.hour) AS gpu_type,
    argMax(b.instance_type, b.hour) AS instance_type,
    sum(b.node_cost_usd) AS node_cost_usd
FROM node_hour_balance AS b
GROUP BY day, node
HAVING sum(b.paid_ms) = 86400000 AND min(b.gpu_milli_ms) > 0 AND sum(b.used_gpu_milli_ms) = 0 AND sum(b.unattributed_gpu_ms) = 0
