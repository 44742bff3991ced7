-- Network cost per hour that the jobs ran; and as far back as minutes are kept, egress apart from ingress (what names no
-- direction is egress), the cost by path and by pair of regions (`eu-1 > us-1`). They are null, or empty, at the levels
-- `cluster`, `region` and `purchase`, which are not known of traffic.

SELECT
    level,
    name,
    c.network_cost_usd AS network_cost_usd,
    c.wall_clock_h AS wall_clock_h,
    toFloat64(c.network_cost_usd) / nullIf(c.wall_clock_h, 0) AS usd_per_hour,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.egress_cost) AS egress_cost_usd,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.egress_count) AS egress_bytes,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.ingress_cost) AS ingress_cost_usd,
    if(level IN ('cluster', 'region', 'purchase'), NULL, t.ingress_count) AS ingress_bytes,
    t.by_path AS path_cost_usd,
    t.by_regions AS regions_cost_usd
FROM level_costs AS c
LEFT ANY JOIN
(
    SELECT level, name, sum(s.egress_cost) AS egress_cost, sum(s.egress_count) AS egress_count,
        sum(s.ingress_cost) AS ingress_cost, sum(s.ingress_count) AS ingress_count,
        mapFromArrays(groupArrayIf(s.way, s.kind = 'path'), groupArrayIf(s.cost, s.kind = 'path')) AS by_path,
        mapFromArrays(groupArrayIf(s.way, s.kind = 'regions'), groupArrayIf(s.cost, s.kind = 'regions')) AS by_regions
    FROM
    (
        SELECT level, name, kind_way.1 AS kind, kind_way.2 AS way, sum(l.cost_usd) AS cost,
            sumIf(l.cost_usd, direction != 'ingress' AND kind = 'path') AS egress_cost,
            sumIf(l.quantity, direction != 'ingress' AND kind = 'path') AS egress_count,
            sumIf(l.cost_usd, direction = 'ingress' AND kind = 'path') AS ingress_cost,
            sumIf(l.quantity, direction = 'ingress' AND kind = 'path') AS ingress_count
        FROM level_traffic AS l
        ARRAY JOIN [('path', toString(path)), ('regions', concat(src_region, ' > ', dst_region))] AS kind_way
        WHERE component = 'network'
        GROUP BY level, name, kind, way
        ORDER BY kind, way
    ) AS s
    GROUP BY level, name
) AS t ON t.level = c.level AND t.name = c.name
