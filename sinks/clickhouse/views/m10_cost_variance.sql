-- How much the cost of an hour of training varies: of each clock hour (UTC) in which jobs ran, its cost per hour of run
-- time, weighted by that time. A job of constant rate has variation 0 whenever it starts and ends.

-- A name's hours are put together day by day, 24 sums of each: a group for each name and hour takes ten times as much memory,
-- and arrays of all hours of all jobs of a name four times. What the hours of a day differ from the mean of the day, and the
-- days from the mean of all, adds up to what the hours differ from the mean of all. Jobs are most of the names, and are grouped
-- apart: less is held at a time. SETTINGS would not help, for a session that may only read ignores them.

WITH paid AS
(
    SELECT
        job_id,
        cluster,
        region,
        purchase,
        toDate(hour) AS day,
        toHour(hour) AS at,
        toInt64(wall_clock_ms) AS ran_ms,
        reinterpretAsInt64(gpu_cost_usd) + reinterpretAsInt64(compute_cost_usd) + reinterpretAsInt64(network_cost_usd) + reinterpretAsInt64(storage_cost_usd) + reinterpretAsInt64(license_cost_usd) + reinterpretAsInt64(labor_cost_usd) + reinterpretAsInt64(overhead_cost_usd) + reinterpretAsInt64(compliance_cost_usd) AS nano
    FROM job_hours FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
)
SELECT
    level,
    name,
    toUInt64(sum(d.hours)) AS hours,
    sum(d.usd) / sum(d.ran_h) AS mean_usd_per_hour,
    sqrt(arraySum(each -> each.4 + each.3 * pow(each.2 / each.3 - mean_usd_per_hour, 2), arraySort(groupArray((d.day, d.usd, d.ran_h, d.within)))) / sum(d.ran_h))
        AS stddev_usd_per_hour,
    stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation
FROM
(
    SELECT
        level,
        name,
        day,
        arrayCount(hour_ms -> hour_ms > 0, s.ran_ms) AS hours,
        arraySum(s.ran_ms) / 3600000 AS ran_h,
        arraySum((hour_nano, hour_ms) -> if(hour_ms > 0, hour_nano, 0), s.nano, s.ran_ms) / 1000000000 AS usd,
        arraySum((hour_nano, hour_ms) -> if(hour_ms > 0, hour_ms / 3600000 * pow(hour_nano * 0.0036 / hour_ms - usd / ran_h, 2), 0), s.nano, s.ran_ms) AS within
    FROM
    (
        SELECT 'job' AS level, job_id AS name, day, sumResample(0, 24, 1)(paid.ran_ms, at) AS ran_ms, sumResample(0, 24, 1)(paid.nano, at) AS nano
        FROM paid
        GROUP BY name, day
        UNION ALL
        SELECT level_name.1, level_name.2, day, sumResample(0, 24, 1)(p.ran_ms, at), sumResample(0, 24, 1)(p.nano, at)
        FROM paid AS p
        LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = p.job_id
        ARRAY JOIN
        [
            ('owner', j.owner),
            ('team', j.team),
            ('project', j.project),
            ('experiment', j.experiment),
            ('cluster', toString(p.cluster)),
            ('region', toString(p.region)),
            ('purchase', toString(p.purchase))
        ] AS level_name
        GROUP BY level_name, day
    ) AS s
    WHERE ran_h > 0
) AS d
GROUP BY level, name
