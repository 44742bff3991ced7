-- What the metrics below are made of.

-- Each per `level` and `name`. Money is summed exactly as Decimal; rates and hours are Float64, and NULL where they would
-- divide by zero. A name is '' where the job does not say. Cluster, region and purchase are those that held in the hour.
-- Hours are summed once and then put under each of their eight names; an attempt without any counts as a job. Retry: what
-- was lost where a later attempt followed, and the start-up of retries (`lost_work`).

SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    sum(c.cost) AS cost_usd,
    sum(c.gpu_cost) AS gpu_cost_usd,
    sum(c.compute_cost) AS compute_cost_usd,
    sum(c.network_cost) AS network_cost_usd,
    sum(c.storage_cost) AS storage_cost_usd,
    sum(c.license_cost) AS license_cost_usd,
    sum(c.labor_cost) AS labor_cost_usd,
    sum(c.overhead_cost) AS overhead_cost_usd,
    sum(c.compliance_cost) AS compliance_cost_usd,
    cost_usd - license_cost_usd - labor_cost_usd AS infra_cost_usd,
    sum(c.lost_cost) AS lost_cost_usd,
    toFloat64(sum(c.gpu)) / 3600000000 AS gpu_h,
    toFloat64(sum(c.productive)) / 3600000 AS productive_gpu_h,
    toFloat64(sum(c.tensor)) / 3600000 AS tensor_gpu_h,
    toFloat64(sum(c.wall_clock)) / 3600000 AS wall_clock_h,
    uniqExactIf(c.job_id, c.wall_clock > 0 OR c.cost != 0) AS jobs,
    uniqExactIf(c.job_id, j.state = 'completed') AS successful_jobs,
    toFloat64(sum(c.lost_gpu)) / 3600000000 AS lost_gpu_h,
    sumIf(c.cost, t.wall_clock = 0) AS untimed_cost_usd,
    sumIf(c.cost - c.license_cost - c.labor_cost, t.wall_clock = 0) AS untimed_infra_cost_usd,
    sumIf(c.storage_cost, t.wall_clock = 0) AS untimed_storage_cost_usd,
    sumIf(c.network_cost, t.wall_clock = 0) AS untimed_network_cost_usd,
    toFloat64(sum(c.sampled)) / 3600000 AS sampled_gpu_h,
    toFloat64(sum(c.tensor_sampled)) / 3600000 AS tensor_sampled_gpu_h,
    sum(multiIf(c.attempt < n.last_attempt, c.lost_cost, c.attempt = n.first_attempt, toDecimal128(0, 9), c.starting_lost_cost))
        AS retry_cost_usd
FROM
(
    SELECT
        job_id,
        attempt,
        cluster,
        region,
        purchase,
        sum(toDecimal128(s.gpu_cost_usd, 9) + toDecimal128(s.compute_cost_usd, 9) + toDecimal128(s.network_cost_usd, 9) + toDecimal128(s.storage_cost_usd, 9) + toDecimal128(s.license_cost_usd, 9) + toDecimal128(s.labor_cost_usd, 9) + toDecimal128(s.overhead_cost_usd, 9) + toDecimal128(s.compliance_cost_usd, 9)) AS cost,
        sum(s.gpu_cost_usd) AS gpu_cost,
        sum(s.compute_cost_usd) AS compute_cost,
        sum(s.network_cost_usd) AS network_cost,
        sum(s.storage_cost_usd) AS storage_cost,
        sum(s.license_cost_usd) AS license_cost,
        sum(s.labor_cost_usd) AS labor_cost,
        sum(s.overhead_cost_usd) AS overhead_cost,
        sum(s.compliance_cost_usd) AS compliance_cost,
        sum(s.lost_cost_usd) AS lost_cost,
        sum(s.starting_lost_cost_usd) AS starting_lost_cost,
        sum(toInt128(s.gpu_milli_ms)) AS gpu,
        sum(toInt128(s.sampled_gpu_ms)) AS sampled,
        sum(toInt128(s.productive_gpu_ms)) AS productive,
        sum(toInt128(s.tensor_gpu_ms)) AS tensor,
        sum(toInt128(s.tensor_sampled_gpu_ms)) AS tensor_sampled,
        sum(toInt128(s.wall_clock_ms)) AS wall_clock,
        sum(toInt128(s.lost_gpu_milli_ms)) AS lost_gpu
    FROM
    (
        SELECT job_id, attempt, toString(cluster) AS cluster, toString(region) AS region, toString(purchase) AS purchase,
            gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, license_cost_usd, labor_cost_usd, overhead_cost_usd,
            compliance_cost_usd, lost_cost_usd, starting_lost_cost_usd, gpu_milli_ms, sampled_gpu_ms, productive_gpu_ms, tensor_gpu_ms, tensor_sampled_gpu_ms, wall_clock_ms, lost_gpu_milli_ms
        FROM job_hours FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
        UNION ALL
        SELECT job_id, attempt, cluster, region, toString(purchase), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        FROM attempts FINAL
        WHERE NOT startsWith(job_id, 'trainfare-canary.') AND (job_id, attempt) NOT IN (SELECT job_id, attempt FROM job_hours)
    ) AS s
    GROUP BY job_id, attempt, cluster, region, purchase
) AS c
LEFT ANY JOIN (SELECT job_id, state, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = c.job_id
LEFT ANY JOIN
(
    SELECT job_id, min(attempts.attempt) AS first_attempt, max(attempts.attempt) AS last_attempt FROM attempts FINAL GROUP BY job_id
) AS n ON n.job_id = c.job_id
LEFT ANY JOIN (SELECT job_id, sum(wall_clock_ms) AS wall_clock FROM job_hours FINAL GROUP BY job_id) AS t ON t.job_id = c.job_id
ARRAY JOIN
[
    ('job', c.job_id),
    ('owner', j.owner),
    ('team', j.team),
    ('project', j.project),
    ('experiment', j.experiment),
    ('cluster', c.cluster),
    ('region', c.region),
    ('purchase', c.purchase)
] AS level_name
GROUP BY level, name
