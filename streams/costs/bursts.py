"""Hours of a span in which far more nodes began to be paid than usual, as the view `provisioning_bursts` has them of all time.

The view looks at every hour of every node. Whether a node is new in an hour depends on the hour before and what is usual on
the week before that, so these statements read no more than that beside the span.
"""

from __future__ import annotations

from typing import Final

#: `hour`, `cluster`, `instance_type`, `nodes` and `usual_nodes`, as of the view; it has `from` and `to`, ms since 1970.
BURSTS: Final = """
SELECT hour, cluster, instance_type, nodes, usual_nodes
FROM
(
    SELECT at AS hour, cluster, instance_type, countIf(is_new) AS nodes, countIf(NOT is_new) AS gone_nodes,
        sum(nodes) OVER (
            PARTITION BY cluster, instance_type ORDER BY hour RANGE BETWEEN 604800 PRECEDING AND 3600 PRECEDING) / 168 AS usual_nodes
    FROM
    (
        SELECT cluster, instance_type,
            arrayJoin(arrayConcat(
                if(before IS NULL OR before < hour - 3600, [(hour, 1)], if(paid_ms < 3600000, [(hour, 0)], [])),
                if(after IS NULL OR after > hour + 3600, [(hour + 3600, 0)], []))) AS changed,
            tupleElement(changed, 1) AS at, tupleElement(changed, 2) AS is_new
        FROM
        (
            SELECT hour, cluster, instance_type, paid_ms, lagInFrame(toNullable(hour), 1) OVER w AS before, leadInFrame(toNullable(hour), 1) OVER w AS after
            FROM node_hours FINAL
            WHERE paid_ms != 0
                AND hour >= fromUnixTimestamp64Milli(greatest({from:Int64} - 608400000, 0), 'UTC')
                AND hour < fromUnixTimestamp64Milli({to:Int64} + 3600000, 'UTC')
            WINDOW w AS (PARTITION BY node ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        )
    )
    GROUP BY hour, cluster, instance_type
)
WHERE nodes >= gone_nodes + 10 AND nodes >= 10 * usual_nodes
    AND hour >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND hour < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"""
