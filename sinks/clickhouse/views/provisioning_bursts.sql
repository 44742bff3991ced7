-- Hours in which at least ten nodes of a cluster and instance type began to be paid, and at least ten times as many as in
-- an hour of the week before (`usual_nodes`, the mean). They are ten more than those that they may replace: nodes of the same
-- that ceased to be paid in the hour or the one before (`gone_nodes`).

SELECT hour, cluster, instance_type, nodes, usual_nodes, gone_nodes
FROM
(
    SELECT
        at AS hour,
        cluster,
        instance_type,
        countIf(is_new) AS nodes,
        countIf(NOT is_new) AS gone_nodes,
        sum(nodes) OVER (
            PARTITION BY cluster, instance_type ORDER BY hour RANGE BETWEEN 604800 PRECEDING AND 3600 PRECEDING) / 168 AS usual_nodes
    FROM
    (
        SELECT
            cluster,
            instance_type,
            arrayJoin(arrayConcat(
                if(before IS NULL OR before < hour - 3600, [(hour, 1)], if(paid_ms < 3600000, [(hour, 0)], [])),
                if(after IS NULL OR after > hour + 3600, [(hour + 3600, 0)], []))) AS changed,
            tupleElement(changed, 1) AS at,
            tupleElement(changed, 2) AS is_new
        FROM
        (
            SELECT
                hour,
                cluster,
                instance_type,
                paid_ms,
                lagInFrame(toNullable(hour), 1) OVER w AS before,
                leadInFrame(toNullable(hour), 1) OVER w AS after
            FROM node_hours FINAL
            WHERE paid_ms != 0
            WINDOW w AS (PARTITION BY node ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING)
        )
    )
    GROUP BY hour, cluster, instance_type
)
WHERE nodes >= gone_nodes + 10 AND nodes >= 10 * usual_nodes
