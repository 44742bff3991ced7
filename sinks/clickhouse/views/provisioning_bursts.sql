-- Hours in which at least ten nodes of a cluster and instance type began to be paid, and at least ten times as many as in
-- an hour of the week before (`usual_nodes`, the mean).

SELECT hour, cluster, instance_type, nodes, usual_nodes
FROM
(
    SELECT
        hour,
        cluster,
        instance_type,
        count() AS nodes,
        sum(nodes) OVER (
            PARTITION BY cluster, instance_type ORDER BY hour RANGE BETWEEN 604800 PRECEDING AND 3600 PRECEDING) / 168 AS usual_nodes
    FROM
    (
        SELECT
            hour,
            cluster,
            instance_type,
            lagInFrame(toNullable(hour), 1) OVER (
                PARTITION BY node ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before
        FROM node_hours FINAL
        WHERE paid_ms != 0
    )
    WHERE before IS NULL OR before < hour - 3600
    GROUP BY hour, cluster, instance_type
)
WHERE nodes >= 10 AND nodes >= 10 * usual_nodes
