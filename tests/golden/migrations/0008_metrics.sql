-- M3 per day: what nobody known used, of all that the nodes cost. `unattributed_usd` is a part of `idle_cost_usd`. GPU-time
-- of nodes without a price is valued at what priced GPU-time cost on average that day, and is added to both sides.
-- What bills say of the same nodes that day stands beside it, with corrections; NULL where no line names any of them.
CREATE OR REPLACE VIEW m3_unallocated_ratio AS
SELECT
    day,
    s.node_cost AS node_cost_usd,
    s.idle_cost AS idle_cost_usd,
    if(n.lines = 0, NULL, CAST(round(n.billed, 9) AS Decimal(38, 9))) AS bill_usd,
    s.unattributed_cost AS unattributed_usd,
    if(s.priced_gpu = 0, 0, toFloat64(s.gpu_cost) * toFloat64(s.unpriced_gpu) / toFloat64(s.priced_gpu)) AS unpriced_usd,
    if(toFloat64(s.node_cost) + unpriced_usd = 0, NULL,
       (toFloat64(s.idle_cost) + unpriced_usd) / (toFloat64(s.node_cost) + unpriced_usd)) AS ratio
FROM
(
    SELECT
        toDate(hour) AS day,
        sum(b.node_cost_usd) AS node_cost,
        sum(greatest(b.idle_cost_usd, toDecimal128(0, 9))) AS idle_cost,
        sum(b.unattributed_cost_usd) AS unattributed_cost,
        sumIf(b.node_cost_usd, b.gpu_milli_ms > 0) AS gpu_cost,
        sum(toInt128(b.unpriced_gpu_milli_ms)) AS unpriced_gpu,
        sum(toInt128(b.gpu_milli_ms - b.unpriced_gpu_milli_ms)) AS priced_gpu
    FROM node_hour_balance AS b
    GROUP BY day
) AS s
LEFT ANY JOIN
(
    SELECT day, sum(d.billed_usd + d.correction_usd) AS billed, sum(d.lines + d.correction_lines) AS lines
    FROM billed_days AS d
    WHERE (day, resource) IN (SELECT toDate(hour), node FROM node_hours FINAL WHERE paid_ms != 0)
    GROUP BY day
) AS n ON n.day = s.day;

-- Traffic by job, as far back as minutes are kept, under the names of the job. What price fields held is not known of it.
CREATE OR REPLACE VIEW level_traffic AS
SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    t.component AS component,
    t.path AS path,
    t.direction AS direction,
    t.region AS src_region,
    t.dst_region AS dst_region,
    t.op AS op,
    t.storage_class AS storage_class,
    t.unit AS unit,
    sum(t.quantity) AS quantity,
    sum(t.cost_usd) AS cost_usd
FROM
(
    SELECT job_id, component, path, direction, region, dst_region, op, storage_class, unit,
        sum(toInt128(m.quantity)) AS quantity, sum(toDecimal128(m.cost_usd, 9)) AS cost_usd
    FROM job_minutes AS m FINAL
    PREWHERE component IN ('network', 'storage') AND NOT startsWith(job_id, 'trainfare-canary.')
    WHERE m.quantity != 0
    GROUP BY job_id, component, path, direction, region, dst_region, op, storage_class, unit
) AS t
LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = t.job_id
ARRAY JOIN
[
    ('job', t.job_id), ('owner', j.owner), ('team', j.team), ('project', j.project), ('experiment', j.experiment)
] AS level_name
GROUP BY level, name, component, path, direction, src_region, dst_region, op, storage_class, unit;

CREATE OR REPLACE VIEW m6_storage_cost_per_hour AS
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
) AS t ON t.level = c.level AND t.name = c.name;

-- What says no direction goes out.
CREATE OR REPLACE VIEW m7_egress_cost_per_hour AS
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
) AS t ON t.level = c.level AND t.name = c.name;

-- What was not sampled is unknown, not unproductive: NULL where nothing was, and elsewhere the productive share of what was
-- sampled stands for all GPU-time. Productive: weighted by utilisation. Tensor: by the tensor cores' activity instead, over
-- the samples that name it. Goodput: paid GPU-time that was not lost.
CREATE OR REPLACE VIEW m8_utilization_adjusted_cost AS
SELECT
    level,
    name,
    c.cost_usd AS cost_usd,
    if(c.sampled_gpu_h = 0, NULL, c.productive_gpu_h) AS productive_gpu_h,
    toFloat64(c.cost_usd) / nullIf(c.gpu_h * (c.productive_gpu_h / nullIf(c.sampled_gpu_h, 0)), 0) AS usd_per_productive_gpu_hour,
    if(c.tensor_sampled_gpu_h = 0, NULL, c.tensor_gpu_h) AS tensor_gpu_h,
    toFloat64(c.cost_usd) / nullIf(c.gpu_h * (c.tensor_gpu_h / nullIf(c.tensor_sampled_gpu_h, 0)), 0) AS usd_per_tensor_gpu_hour,
    c.gpu_h - c.lost_gpu_h AS goodput_gpu_h,
    toFloat64(c.cost_usd) / nullIf(goodput_gpu_h, 0) AS usd_per_goodput_gpu_hour,
    c.gpu_h AS gpu_h,
    c.sampled_gpu_h AS sampled_gpu_h,
    c.sampled_gpu_h / nullIf(c.gpu_h, 0) AS coverage_ratio,
    c.productive_gpu_h / nullIf(c.sampled_gpu_h, 0) AS productive_ratio,
    goodput_gpu_h / nullIf(c.gpu_h, 0) AS goodput_ratio
FROM level_costs AS c;

-- Of each measure that jobs report: the gain from the worst to the best trial, whichever way is better, and the sum of all
-- progress beside what the jobs that made it cost. One trial alone gained nothing that is known.
CREATE OR REPLACE VIEW m9_cost_per_experiment AS
SELECT
    level,
    name,
    c.jobs AS jobs,
    c.successful_jobs AS successful_jobs,
    c.cost_usd AS cost_usd,
    toFloat64(c.cost_usd) / nullIf(c.jobs, 0) AS usd_per_job,
    toFloat64(c.cost_usd) / nullIf(c.successful_jobs, 0) AS usd_per_successful_job,
    m.gained AS quality_gained,
    mapApply((measure, gain) -> (measure, toFloat64(c.cost_usd) / nullIf(gain, 0)), m.gained) AS usd_per_quality_gained,
    m.done AS progress,
    mapApply((measure, cost) -> (measure, cost / m.done[measure]), m.cost) AS usd_per_progress
FROM level_costs AS c
LEFT ANY JOIN
(
    SELECT
        level,
        name,
        mapFromArrays(groupArrayIf(s.measure, s.kind = 'quality'), groupArrayIf(s.gain, s.kind = 'quality')) AS gained,
        mapFromArrays(groupArrayIf(s.measure, s.kind = 'progress'), groupArrayIf(s.amount, s.kind = 'progress')) AS done,
        mapFromArrays(groupArrayIf(s.measure, s.kind = 'progress'), groupArrayIf(s.usd, s.kind = 'progress')) AS cost
    FROM
    (
        SELECT
            level_name.1 AS level,
            level_name.2 AS name,
            reported.1 AS kind,
            reported.2 AS measure,
            max(reported.3) - min(reported.3) AS gain,
            sum(reported.3) AS amount,
            toFloat64(sum(h.cost)) AS usd
        FROM
        (
            SELECT
                level_name,
                job_id,
                any(j.reported) AS reports,
                sum(p.cost) AS cost
            FROM
            (
                SELECT job_id, toString(cluster) AS cluster, toString(region) AS region, toString(purchase) AS purchase,
                    sum(toDecimal128(gpu_cost_usd, 9) + toDecimal128(compute_cost_usd, 9) + toDecimal128(network_cost_usd, 9) + toDecimal128(storage_cost_usd, 9) + toDecimal128(license_cost_usd, 9) + toDecimal128(labor_cost_usd, 9) + toDecimal128(overhead_cost_usd, 9)) AS cost
                FROM job_hours FINAL
                WHERE NOT startsWith(job_id, 'trainfare-canary.')
                GROUP BY job_id, cluster, region, purchase
            ) AS p
            INNER JOIN
            (
                SELECT job_id, owner, team, project, experiment,
                    arrayConcat(
                        arrayMap((name, value) -> ('quality', name, value), mapKeys(quality), mapValues(quality)),
                        arrayFilter(each -> each.3 > 0,
                            arrayMap((name, value) -> ('progress', name, value), mapKeys(progress), mapValues(progress)))) AS reported
                FROM jobs FINAL WHERE notEmpty(quality) OR notEmpty(progress)
            ) AS j ON j.job_id = p.job_id
            ARRAY JOIN
            [
                ('job', p.job_id),
                ('owner', j.owner),
                ('team', j.team),
                ('project', j.project),
                ('experiment', j.experiment),
                ('cluster', p.cluster),
                ('region', p.region),
                ('purchase', p.purchase)
            ] AS level_name
            GROUP BY level_name, job_id
        ) AS h
        ARRAY JOIN h.reports AS reported
        GROUP BY level, name, kind, measure
        ORDER BY kind, measure
    ) AS s
    GROUP BY level, name
) AS m ON m.level = c.level AND m.name = c.name;
