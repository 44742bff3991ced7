-- Nodes with [events](usage_events.md#nodes) or hours, and whether one of them was paid by its GPUs (`has_gpus`): GPU-time
-- of jobs on any other node meets no cost of a node.

-- A node with hours has minutes: hours are read for their names, for there are sixty times as many minutes, which stay.

SELECT node, max(has_gpus) AS has_gpus
FROM
(
    SELECT node, max(gpu_milli_ms != 0) AS has_gpus FROM node_hours GROUP BY node
    UNION ALL
    SELECT node, max(unit = 'gpu_milli_ms' OR sku != '')
    FROM node_minutes
    PREWHERE node NOT IN (SELECT node FROM node_hours WHERE gpu_milli_ms != 0 GROUP BY node)
    GROUP BY node
)
GROUP BY node
