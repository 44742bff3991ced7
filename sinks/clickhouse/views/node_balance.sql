-- [Node cost = cost of the jobs on it + idle - overcommitted](cost_metrics.md#idle-time), per minute, of nodes with events.
-- `idle_cost_usd` is never below zero; `overcommitted_cost_usd` is what jobs pay beyond what the node costs.
-- `overcommitted`: it is more than the rounding of the rows. A query needs some 450 bytes of memory for each node and minute
-- that it reads, so that 128 MiB are enough for a day of 200 nodes: give a time (`minute >=`), ask
-- [`node_hour_balance`](#node_hour_balance), or raise [`query.max_memory_bytes`](settings.md).

-- A minute in which jobs pay more than the node costs is not idle below zero, and hides no idle time of another minute or
-- node. Jobs' GPU rows count, and their instance time on nodes without GPUs while the node is paid as an instance. Every
-- row is rounded to a nano-dollar on its own: only what is more than half of one per row is `overcommitted`.

SELECT
    minute,
    node,
    sum(s.node_cost) AS node_cost_usd,
    sum(s.job_cost) AS job_cost_usd,
    greatest(node_cost_usd - job_cost_usd, toDecimal128(0, 9)) AS idle_cost_usd,
    greatest(job_cost_usd - node_cost_usd, toDecimal128(0, 9)) AS overcommitted_cost_usd,
    2000000000 * overcommitted_cost_usd > toInt64(count()) AS overcommitted
FROM
(
    SELECT minute, node, cost_usd AS node_cost, toDecimal64(0, 9) AS job_cost
    FROM node_minutes FINAL
    WHERE quantity != 0
    UNION ALL
    SELECT minute, node, toDecimal64(0, 9), cost_usd
    FROM job_minutes FINAL
    PREWHERE component = 'gpu'
    WHERE quantity != 0
        AND node IN (SELECT node FROM known_nodes WHERE has_gpus)
    UNION ALL
    SELECT minute, node, toDecimal64(0, 9), cost_usd
    FROM job_minutes FINAL
    PREWHERE component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
    WHERE quantity != 0
        AND (minute, node) IN (
            SELECT minute, node FROM node_minutes FINAL PREWHERE unit = 'instance_milli_ms' AND sku != '' WHERE quantity != 0)
) AS s
-- Months whose minutes of jobs were dropped would seem to be idle.
WHERE toYYYYMM(minute) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
GROUP BY minute, node
