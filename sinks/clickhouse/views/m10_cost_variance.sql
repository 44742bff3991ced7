-- How much the cost of an hour of training varies: of each clock hour (UTC) in which jobs ran, its cost per hour of run
-- time, weighted by that time. A job of constant rate has variation 0 whenever it starts and ends.

-- A name's hours are put together in arrays of 16 bytes for each row of `job_hours`, a small block of names at a time: a
-- group for each name and hour needs ten times as much.

SELECT
    level,
    name,
    toUInt64(length(s.rans_h)) AS hours,
    arraySum(s.costs_usd) / arraySum(s.rans_h) AS mean_usd_per_hour,
    sqrt(arraySum((usd, ran_h) -> ran_h * pow(usd / ran_h - mean_usd_per_hour, 2), s.costs_usd, s.rans_h) / arraySum(s.rans_h))
        AS stddev_usd_per_hour,
    stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation
FROM
(
    SELECT
        level_name.1 AS level,
        level_name.2 AS name,
        groupArrayArray(b.hours) AS all_hours,
        arraySort(all_hours) AS clock,
        arrayFilter((i, hour, last) -> i = 1 OR hour != last, arrayEnumerate(clock), clock, arrayPushFront(arrayPopBack(clock), 0)) AS starts,
        arrayMap((start, until) -> (start, toUInt64(until - start)), starts, arrayPushBack(arrayPopFront(starts), length(clock) + 1)) AS ranges,
        arrayReduceInRanges('sum', ranges, arraySort((ran_ms, hour) -> hour, groupArrayArray(b.rans_ms), all_hours)) AS rans_ms,
        arrayReduceInRanges('sum', ranges, arrayMap(nano -> toFloat64(nano), arraySort((nano, hour) -> hour, groupArrayArray(b.costs_nano), all_hours))) AS nanos,
        arrayMap(nano -> nano / 1000000000, arrayFilter((nano, ran_ms) -> ran_ms > 0, nanos, rans_ms)) AS costs_usd,
        arrayMap(ran_ms -> toFloat64(ran_ms) / 3600000, arrayFilter(ran_ms -> ran_ms > 0, rans_ms)) AS rans_h
    FROM
    (
        SELECT
            job_id,
            toString(cluster) AS cluster,
            toString(region) AS region,
            toString(purchase) AS purchase,
            groupArray(toUInt32(hour)) AS hours,
            groupArray(reinterpretAsInt64(gpu_cost_usd) + reinterpretAsInt64(compute_cost_usd) + reinterpretAsInt64(network_cost_usd) + reinterpretAsInt64(storage_cost_usd) + reinterpretAsInt64(license_cost_usd) + reinterpretAsInt64(labor_cost_usd) + reinterpretAsInt64(overhead_cost_usd) + reinterpretAsInt64(compliance_cost_usd)) AS costs_nano,
            groupArray(toUInt32(wall_clock_ms)) AS rans_ms
        FROM job_hours FINAL
        WHERE NOT startsWith(job_id, 'trainfare-canary.')
        GROUP BY job_id, cluster, region, purchase
    ) AS b
    LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = b.job_id
    ARRAY JOIN
    [
        ('job', b.job_id),
        ('owner', j.owner),
        ('team', j.team),
        ('project', j.project),
        ('experiment', j.experiment),
        ('cluster', b.cluster),
        ('region', b.region),
        ('purchase', b.purchase)
    ] AS level_name
    GROUP BY level, name
    HAVING notEmpty(rans_h)
    SETTINGS max_block_size = 512, group_by_two_level_threshold = 1000
) AS s
