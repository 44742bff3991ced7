-- The metrics, each per `level` and `name`. Money is summed exactly as Decimal; rates and hours are Float64,
-- and NULL where they would divide by zero. A name is '' where the job does not say.

-- Attempts are read once and then put under each of their eight names.
CREATE OR REPLACE VIEW level_costs AS
SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    sum(c.cost_usd) AS cost_usd,
    sum(c.gpu_cost_usd) AS gpu_cost_usd,
    sum(c.compute_cost_usd) AS compute_cost_usd,
    sum(c.network_cost_usd) AS network_cost_usd,
    sum(c.storage_cost_usd) AS storage_cost_usd,
    sum(c.license_cost_usd) AS license_cost_usd,
    sum(c.labor_cost_usd) AS labor_cost_usd,
    sum(c.overhead_cost_usd) AS overhead_cost_usd,
    cost_usd - license_cost_usd - labor_cost_usd AS infra_cost_usd,
    sum(c.lost_cost_usd) AS lost_cost_usd,
    toFloat64(sum(c.gpu_milli_ms)) / 3600000000 AS gpu_h,
    toFloat64(sum(c.productive_gpu_ms)) / 3600000 AS productive_gpu_h,
    toFloat64(sum(c.tensor_gpu_ms)) / 3600000 AS tensor_gpu_h,
    toFloat64(sum(c.wall_clock_ms)) / 3600000 AS wall_clock_h,
    uniqExact(c.job_id) AS jobs,
    uniqExactIf(c.job_id, j.state = 'completed') AS successful_jobs
FROM attempt_costs AS c
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = c.job_id
LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = c.job_id AND a.attempt = c.attempt
ARRAY JOIN
[
    ('job', c.job_id),
    ('owner', j.owner),
    ('team', j.team),
    ('project', j.project),
    ('experiment', j.experiment),
    ('cluster', a.cluster),
    ('region', a.region),
    ('purchase', toString(a.purchase))
] AS level_name
GROUP BY level, name;

CREATE OR REPLACE VIEW m1_cost_per_wall_clock_hour AS
SELECT
    level,
    name,
    cost_usd,
    infra_cost_usd,
    wall_clock_h,
    toFloat64(cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour,
    toFloat64(infra_cost_usd) / nullIf(wall_clock_h, 0) AS infra_usd_per_hour
FROM level_costs;

CREATE OR REPLACE VIEW m2_cost_per_gpu_hour AS
SELECT
    level,
    name,
    gpu_cost_usd + overhead_cost_usd AS gpu_and_overhead_cost_usd,
    gpu_h,
    toFloat64(gpu_and_overhead_cost_usd) / nullIf(gpu_h, 0) AS usd_per_gpu_hour
FROM level_costs;

CREATE OR REPLACE VIEW m5_retry_overhead AS
SELECT
    level,
    name,
    lost_cost_usd,
    cost_usd,
    toFloat64(lost_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS ratio
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

-- Productive: GPU-time weighted by utilisation. Tensor: weighted by the tensor cores' activity instead, over the
-- samples that name it (NULL without any). Goodput: productive time less the share whose work was lost,
-- productive_gpu_h x (1 - lost_cost_usd / cost_usd).
CREATE OR REPLACE VIEW m8_utilization_adjusted_cost AS
SELECT
    level,
    name,
    cost_usd,
    productive_gpu_h,
    toFloat64(cost_usd) / nullIf(productive_gpu_h, 0) AS usd_per_productive_gpu_hour,
    tensor_gpu_h,
    toFloat64(cost_usd) / nullIf(tensor_gpu_h, 0) AS usd_per_tensor_gpu_hour,
    productive_gpu_h * (1 - toFloat64(lost_cost_usd) / nullIf(toFloat64(cost_usd), 0)) AS goodput_gpu_h,
    toFloat64(cost_usd) / nullIf(goodput_gpu_h, 0) AS usd_per_goodput_gpu_hour
FROM level_costs;

CREATE OR REPLACE VIEW m9_cost_per_experiment AS
SELECT
    level,
    name,
    jobs,
    successful_jobs,
    cost_usd,
    toFloat64(cost_usd) / nullIf(jobs, 0) AS usd_per_job,
    toFloat64(cost_usd) / nullIf(successful_jobs, 0) AS usd_per_successful_job
FROM level_costs;

-- Clock hours of UTC that have paid time of the name (rows with a phase); all cost of such an hour counts.
CREATE OR REPLACE VIEW m10_cost_variance AS
SELECT
    level,
    name,
    count() AS hours,
    avg(usd) AS mean_usd_per_hour,
    stddevPopStable(usd) AS stddev_usd_per_hour,
    stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation
FROM
(
    SELECT
        level_name.1 AS level,
        level_name.2 AS name,
        h.hour AS hour,
        toFloat64(sum(h.cost_usd)) AS usd
    FROM
    (
        SELECT
            job_id,
            attempt,
            toStartOfHour(minute) AS hour,
            sum(job_minutes.cost_usd) AS cost_usd,
            countIf(phase != '') AS paid
        FROM job_minutes FINAL
        WHERE quantity != 0
        GROUP BY job_id, attempt, hour
    ) AS h
    LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = h.job_id
    LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt
    ARRAY JOIN
    [
        ('job', h.job_id),
        ('owner', j.owner),
        ('team', j.team),
        ('project', j.project),
        ('experiment', j.experiment),
        ('cluster', a.cluster),
        ('region', a.region),
        ('purchase', toString(a.purchase))
    ] AS level_name
    GROUP BY level, name, hour
    HAVING sum(h.paid) > 0
)
GROUP BY level, name;

CREATE OR REPLACE VIEW chargeback AS
SELECT
    toStartOfMonth(minute) AS month,
    team,
    project,
    owner,
    experiment,
    uniqExact(l.job_id) AS jobs,
    toFloat64(sumIf(toInt128(l.quantity), l.component = 'gpu')) / 3600000000 AS gpu_h,
    sum(l.cost_usd) AS cost_usd,
    sumIf(l.cost_usd, l.component NOT IN ('license', 'labor')) AS infra_cost_usd,
    sumIf(l.cost_usd, l.component = 'gpu') AS gpu_cost_usd,
    sumIf(l.cost_usd, l.component = 'compute') AS compute_cost_usd,
    sumIf(l.cost_usd, l.component = 'network') AS network_cost_usd,
    sumIf(l.cost_usd, l.component = 'storage') AS storage_cost_usd,
    sumIf(l.cost_usd, l.component = 'license') AS license_cost_usd,
    sumIf(l.cost_usd, l.component = 'labor') AS labor_cost_usd,
    sumIf(l.cost_usd, l.component = 'overhead') AS overhead_cost_usd,
    sum(l.lost_cost_usd) AS lost_cost_usd
FROM ledger AS l
GROUP BY month, team, project, owner, experiment;
