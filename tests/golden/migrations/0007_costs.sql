-- Costs over time, and the metrics. All of them read hours, which remain when minutes are deleted; where they sum to the same
-- they do so to the nano-dollar. A row of zeros stands for none. The canary is no user's job.

-- What each attempt paid for in each hour, with its job's dimensions.
CREATE OR REPLACE VIEW cost_hours AS
SELECT
    h.hour AS hour,
    h.job_id AS job_id,
    h.attempt AS attempt,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.labels AS labels,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    h.wall_clock_ms AS wall_clock_ms,
    h.queued_ms AS queued_ms,
    h.starting_ms AS starting_ms,
    h.gpu_milli_ms AS gpu_milli_ms,
    h.sampled_gpu_ms AS sampled_gpu_ms,
    h.productive_gpu_ms AS productive_gpu_ms,
    h.tensor_gpu_ms AS tensor_gpu_ms,
    h.tensor_sampled_gpu_ms AS tensor_sampled_gpu_ms,
    h.lost_gpu_milli_ms AS lost_gpu_milli_ms,
    h.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    toDecimal128(h.gpu_cost_usd, 9) + toDecimal128(h.compute_cost_usd, 9) + toDecimal128(h.network_cost_usd, 9) + toDecimal128(h.storage_cost_usd, 9) + toDecimal128(h.license_cost_usd, 9) + toDecimal128(h.labor_cost_usd, 9) + toDecimal128(h.overhead_cost_usd, 9) AS cost_usd,
    h.gpu_cost_usd AS gpu_cost_usd,
    h.compute_cost_usd AS compute_cost_usd,
    h.network_cost_usd AS network_cost_usd,
    h.storage_cost_usd AS storage_cost_usd,
    h.license_cost_usd AS license_cost_usd,
    h.labor_cost_usd AS labor_cost_usd,
    h.overhead_cost_usd AS overhead_cost_usd,
    h.lost_cost_usd AS lost_cost_usd,
    h.starting_lost_cost_usd AS starting_lost_cost_usd
FROM
(
    SELECT * FROM job_hours FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
        AND (wall_clock_ms != 0 OR queued_ms != 0 OR gpu_milli_ms != 0 OR sampled_gpu_ms != 0
         OR gpu_cost_usd + compute_cost_usd + network_cost_usd + storage_cost_usd + license_cost_usd + labor_cost_usd + overhead_cost_usd != 0)
) AS h
LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment, labels FROM jobs FINAL) AS j ON j.job_id = h.job_id;

-- One row per attempt, also of one without any cost.
CREATE OR REPLACE VIEW attempt_costs AS
SELECT
    job_id,
    attempt,
    sum(toDecimal128(s.gpu_cost_usd, 9) + toDecimal128(s.compute_cost_usd, 9) + toDecimal128(s.network_cost_usd, 9) + toDecimal128(s.storage_cost_usd, 9) + toDecimal128(s.license_cost_usd, 9) + toDecimal128(s.labor_cost_usd, 9) + toDecimal128(s.overhead_cost_usd, 9)) AS cost_usd,
    sum(s.gpu_cost_usd) AS gpu_cost_usd,
    sum(s.compute_cost_usd) AS compute_cost_usd,
    sum(s.network_cost_usd) AS network_cost_usd,
    sum(s.storage_cost_usd) AS storage_cost_usd,
    sum(s.license_cost_usd) AS license_cost_usd,
    sum(s.labor_cost_usd) AS labor_cost_usd,
    sum(s.overhead_cost_usd) AS overhead_cost_usd,
    sum(s.lost_cost_usd) AS lost_cost_usd,
    sum(toInt128(s.gpu_milli_ms)) AS gpu_milli_ms,
    sum(toInt128(s.productive_gpu_ms)) AS productive_gpu_ms,
    sum(toInt128(s.tensor_gpu_ms)) AS tensor_gpu_ms,
    sum(toInt128(s.wall_clock_ms)) AS wall_clock_ms,
    sum(toInt128(s.lost_gpu_milli_ms)) AS lost_gpu_milli_ms
FROM
(
    SELECT job_id, attempt, gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, license_cost_usd, labor_cost_usd, overhead_cost_usd,
        lost_cost_usd, gpu_milli_ms, productive_gpu_ms, tensor_gpu_ms, wall_clock_ms, lost_gpu_milli_ms
    FROM job_hours FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
    UNION ALL
    SELECT job_id, attempt, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
    FROM attempts FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
) AS s
GROUP BY job_id, attempt;

-- The metrics, each per `level` and `name`. Money is summed exactly as Decimal; rates and hours are Float64, and NULL where
-- they would divide by zero. A name is '' where the job does not say. Cluster, region and purchase are those that held in
-- the hour. Hours are summed once and then put under each of their eight names; an attempt without any counts as a job.
-- Retry: what was lost where a later attempt followed, and the start-up of retries (`lost_work`).
CREATE OR REPLACE VIEW level_costs AS
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
    cost_usd - license_cost_usd - labor_cost_usd AS infra_cost_usd,
    sum(c.lost_cost) AS lost_cost_usd,
    toFloat64(sum(c.gpu)) / 3600000000 AS gpu_h,
    toFloat64(sum(c.productive)) / 3600000 AS productive_gpu_h,
    toFloat64(sum(c.tensor)) / 3600000 AS tensor_gpu_h,
    toFloat64(sum(c.wall_clock)) / 3600000 AS wall_clock_h,
    uniqExactIf(c.job_id, c.wall_clock > 0 OR c.cost != 0 OR c.productive > 0) AS jobs,
    uniqExactIf(c.job_id, j.state = 'completed') AS successful_jobs,
    toFloat64(sum(c.lost_gpu)) / 3600000000 AS lost_gpu_h,
    sumIf(c.cost, t.wall_clock = 0) AS untimed_cost_usd,
    sumIf(c.cost - c.license_cost - c.labor_cost, t.wall_clock = 0) AS untimed_infra_cost_usd,
    sumIf(c.storage_cost, t.wall_clock = 0) AS untimed_storage_cost_usd,
    sumIf(c.network_cost, t.wall_clock = 0) AS untimed_network_cost_usd,
    toFloat64(sum(c.sampled)) / 3600000 AS sampled_gpu_h,
    toFloat64(sum(c.tensor_sampled)) / 3600000 AS tensor_sampled_gpu_h,
    sum(multiIf(c.attempt < n.last_attempt, c.lost_cost, c.attempt = n.first_attempt, toDecimal128(0, 9),
                a.state NOT IN ('preempted', 'failed'), c.lost_cost, c.starting_lost_cost)) AS retry_cost_usd
FROM
(
    SELECT
        job_id,
        attempt,
        cluster,
        region,
        purchase,
        sum(toDecimal128(s.gpu_cost_usd, 9) + toDecimal128(s.compute_cost_usd, 9) + toDecimal128(s.network_cost_usd, 9) + toDecimal128(s.storage_cost_usd, 9) + toDecimal128(s.license_cost_usd, 9) + toDecimal128(s.labor_cost_usd, 9) + toDecimal128(s.overhead_cost_usd, 9)) AS cost,
        sum(s.gpu_cost_usd) AS gpu_cost,
        sum(s.compute_cost_usd) AS compute_cost,
        sum(s.network_cost_usd) AS network_cost,
        sum(s.storage_cost_usd) AS storage_cost,
        sum(s.license_cost_usd) AS license_cost,
        sum(s.labor_cost_usd) AS labor_cost,
        sum(s.overhead_cost_usd) AS overhead_cost,
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
            lost_cost_usd, starting_lost_cost_usd, gpu_milli_ms, sampled_gpu_ms, productive_gpu_ms, tensor_gpu_ms, tensor_sampled_gpu_ms, wall_clock_ms, lost_gpu_milli_ms
        FROM job_hours FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')
        UNION ALL
        SELECT job_id, attempt, cluster, region, toString(purchase), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
        FROM attempts FINAL
        WHERE NOT startsWith(job_id, 'trainfare-canary.') AND (job_id, attempt) NOT IN (SELECT job_id, attempt FROM job_hours)
    ) AS s
    GROUP BY job_id, attempt, cluster, region, purchase
) AS c
LEFT ANY JOIN (SELECT job_id, state, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = c.job_id
LEFT ANY JOIN (SELECT job_id, attempt, state FROM attempts FINAL) AS a ON a.job_id = c.job_id AND a.attempt = c.attempt
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
GROUP BY level, name;

-- All cost over all hours that jobs ran; what jobs cost that never ran is in it, and named.
CREATE OR REPLACE VIEW m1_cost_per_wall_clock_hour AS
SELECT
    level,
    name,
    cost_usd,
    infra_cost_usd,
    wall_clock_h,
    toFloat64(cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour,
    toFloat64(infra_cost_usd) / nullIf(wall_clock_h, 0) AS infra_usd_per_hour,
    untimed_cost_usd
FROM level_costs;

CREATE OR REPLACE VIEW m5_retry_overhead AS
SELECT
    level,
    name,
    lost_cost_usd,
    cost_usd,
    toFloat64(lost_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS ratio,
    retry_cost_usd,
    toFloat64(retry_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS retry_ratio
FROM level_costs;

CREATE OR REPLACE VIEW m6_storage_cost_per_hour AS
SELECT
    level,
    name,
    storage_cost_usd,
    wall_clock_h,
    toFloat64(storage_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour
FROM level_costs;

CREATE OR REPLACE VIEW m7_egress_cost_per_hour AS
SELECT
    level,
    name,
    network_cost_usd,
    wall_clock_h,
    toFloat64(network_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour
FROM level_costs;

-- What was not sampled is unknown, not unproductive: the productive share of what was sampled stands for all GPU-time.
-- Productive: weighted by utilisation. Tensor: by the tensor cores' activity instead, over the samples that name it.
-- Goodput: paid GPU-time that was not lost.
CREATE OR REPLACE VIEW m8_utilization_adjusted_cost AS
SELECT
    level,
    name,
    cost_usd,
    productive_gpu_h,
    toFloat64(cost_usd) / nullIf(gpu_h * (productive_gpu_h / nullIf(sampled_gpu_h, 0)), 0) AS usd_per_productive_gpu_hour,
    tensor_gpu_h,
    toFloat64(cost_usd) / nullIf(gpu_h * (tensor_gpu_h / nullIf(tensor_sampled_gpu_h, 0)), 0) AS usd_per_tensor_gpu_hour,
    gpu_h - lost_gpu_h AS goodput_gpu_h,
    toFloat64(cost_usd) / nullIf(goodput_gpu_h, 0) AS usd_per_goodput_gpu_hour,
    gpu_h,
    sampled_gpu_h,
    sampled_gpu_h / nullIf(gpu_h, 0) AS coverage_ratio,
    productive_gpu_h / nullIf(sampled_gpu_h, 0) AS productive_ratio,
    goodput_gpu_h / nullIf(gpu_h, 0) AS goodput_ratio
FROM level_costs;

-- By clock hour of UTC: its cost per hour of run time of jobs in it, weighted by that time. An hour in which none ran does
-- not count.
CREATE OR REPLACE VIEW m10_cost_variance AS
SELECT
    level,
    name,
    count() AS hours,
    sum(t.usd) / sum(t.ran_h) AS mean_usd_per_hour,
    sqrt(arraySum(h -> h.2 * pow(h.1 / h.2 - mean_usd_per_hour, 2), groupArray((t.usd, t.ran_h))) / sum(t.ran_h))
        AS stddev_usd_per_hour,
    stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation
FROM
(
    SELECT
        level_name.1 AS level,
        level_name.2 AS name,
        h.hour AS hour,
        toFloat64(sum(h.cost)) AS usd,
        toFloat64(sum(h.wall_clock_ms)) / 3600000 AS ran_h
    FROM
    (
        SELECT
            hour,
            job_id,
            toString(cluster) AS cluster,
            toString(region) AS region,
            toString(purchase) AS purchase,
            toDecimal128(gpu_cost_usd, 9) + toDecimal128(compute_cost_usd, 9) + toDecimal128(network_cost_usd, 9) + toDecimal128(storage_cost_usd, 9) + toDecimal128(license_cost_usd, 9) + toDecimal128(labor_cost_usd, 9) + toDecimal128(overhead_cost_usd, 9) AS cost,
            wall_clock_ms
        FROM job_hours FINAL
        WHERE NOT startsWith(job_id, 'trainfare-canary.')
    ) AS h
    LEFT ANY JOIN (SELECT job_id, owner, team, project, experiment FROM jobs FINAL) AS j ON j.job_id = h.job_id
    ARRAY JOIN
    [
        ('job', h.job_id),
        ('owner', j.owner),
        ('team', j.team),
        ('project', j.project),
        ('experiment', j.experiment),
        ('cluster', h.cluster),
        ('region', h.region),
        ('purchase', h.purchase)
    ] AS level_name
    GROUP BY level, name, hour
    HAVING ran_h > 0
) AS t
GROUP BY level, name;

CREATE OR REPLACE VIEW chargeback AS
SELECT
    toStartOfMonth(hour) AS month,
    team,
    project,
    owner,
    experiment,
    uniqExactIf(h.job_id, h.cost_usd != 0 OR h.gpu_milli_ms != 0) AS jobs,
    toFloat64(sum(toInt128(h.gpu_milli_ms))) / 3600000000 AS gpu_h,
    sum(h.cost_usd) AS cost_usd,
    sum(h.cost_usd - h.license_cost_usd - h.labor_cost_usd) AS infra_cost_usd,
    sum(h.gpu_cost_usd) AS gpu_cost_usd,
    sum(h.compute_cost_usd) AS compute_cost_usd,
    sum(h.network_cost_usd) AS network_cost_usd,
    sum(h.storage_cost_usd) AS storage_cost_usd,
    sum(h.license_cost_usd) AS license_cost_usd,
    sum(h.labor_cost_usd) AS labor_cost_usd,
    sum(h.overhead_cost_usd) AS overhead_cost_usd,
    sum(h.lost_cost_usd) AS lost_cost_usd
FROM cost_hours AS h
GROUP BY month, team, project, owner, experiment
HAVING jobs > 0;
