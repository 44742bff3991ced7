-- Cost per job that ran or cost something, and per job whose state is `completed`. By the name of each measure that jobs
-- report in [`quality` or `progress`](usage_events.md#jobs): the cost per unit between the worst and the best job, and per step,
-- epoch or token of the jobs that made any.

-- The gain is from the worst to the best trial, whichever way is better. One trial alone gained nothing that is known.

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
                    sum(toDecimal128(gpu_cost_usd, 9) + toDecimal128(compute_cost_usd, 9) + toDecimal128(network_cost_usd, 9) + toDecimal128(storage_cost_usd, 9) + toDecimal128(license_cost_usd, 9) + toDecimal128(labor_cost_usd, 9) + toDecimal128(overhead_cost_usd, 9) + toDecimal128(compliance_cost_usd, 9)) AS cost
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
) AS m ON m.level = c.level AND m.name = c.name
