-- Storage cost per hour that the jobs ran; requests, bytes, and the cost by storage class as far back as minutes are kept.
-- They are null, or empty, at the levels `cluster`, `region` and `purchase`, which are not known of traffic.

SELECT
    level,
    name,
    c.storage_cost_usd AS storage_cost_usd,
    c.wall_clock_h AS wall_clock_h,
    toFloat64(c.storage_cost_usd) / nullIf(c.wall_clock_h, 0) AS usd_per_hour,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.request_count) AS requests,
    toFloat64(requests) / nullIf(c.wall_clock_h, 0) AS requests_per_hour,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.byte_count) AS bytes,
    t.by_class AS storage_class_cost_usd
FROM level_costs AS c
LEFT ANY JOIN
(
    SELECT level, name, sum(s.request_count) AS request_count, sum(s.byte_count) AS byte_count,
        mapFromArrays(groupArray(s.storage_class), groupArray(s.cost)) AS by_class
    FROM
    (
        SELECT level, name, toString(storage_class) AS storage_class, sum(l.cost_usd) AS cost,
            sumIf(l.quantity, unit = 'requests') AS request_count, sumIf(l.quantity, unit = 'bytes') AS byte_count
        FROM level_traffic AS l WHERE component = 'storage'
        GROUP BY level, name, storage_class
        ORDER BY storage_class
    ) AS s
    GROUP BY level, name
) AS t ON t.level = c.level AND t.name = c.name
