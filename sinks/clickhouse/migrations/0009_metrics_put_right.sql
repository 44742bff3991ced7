-- Rates that do not mislead.
-- A job that samples alone pay for has cost and no run time: its cost is no part of a rate per hour that others ran.
-- What was lost is a share of GPU-time: dollars of traffic do not change it. A job that never ran is no job of an experiment.
-- A clock hour in which a job ran for some minutes is no cheap hour: its cost is held against the time that was paid in it.

CREATE OR REPLACE VIEW attempt_costs AS
SELECT
    job_id,
    attempt,
    sum(s.cost) AS cost_usd,
    sum(s.gpu_cost) AS gpu_cost_usd,
    sum(s.compute_cost) AS compute_cost_usd,
    sum(s.network_cost) AS network_cost_usd,
    sum(s.storage_cost) AS storage_cost_usd,
    sum(s.license_cost) AS license_cost_usd,
    sum(s.labor_cost) AS labor_cost_usd,
    sum(s.overhead_cost) AS overhead_cost_usd,
    sum(s.lost_cost) AS lost_cost_usd,
    sum(s.gpu) AS gpu_milli_ms,
    sum(s.productive) AS productive_gpu_ms,
    sum(s.tensor) AS tensor_gpu_ms,
    sum(s.wall_clock) AS wall_clock_ms,
    sum(s.lost_gpu) AS lost_gpu_milli_ms
FROM
(
    SELECT
        job_id,
        attempt,
        sum(cost_usd) AS cost,
        sumIf(cost_usd, component = 'gpu') AS gpu_cost,
        sumIf(cost_usd, component = 'compute') AS compute_cost,
        sumIf(cost_usd, component = 'network') AS network_cost,
        sumIf(cost_usd, component = 'storage') AS storage_cost,
        sumIf(cost_usd, component = 'license') AS license_cost,
        sumIf(cost_usd, component = 'labor') AS labor_cost,
        sumIf(cost_usd, component = 'overhead') AS overhead_cost,
        sum(lost_cost_usd) AS lost_cost,
        sumIf(toInt128(quantity), component = 'gpu') AS gpu,
        toInt128(0) AS productive,
        toInt128(0) AS tensor,
        toInt128(0) AS wall_clock,
        sumIf(toInt128(lost_quantity), component = 'gpu') AS lost_gpu
    FROM job_minutes FINAL
    WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        sum(toInt128(productive_gpu_ms)), sum(toInt128(tensor_gpu_ms)), toInt128(0), toInt128(0)
    FROM job_usage_minutes FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        toInt128(0), toInt128(0), toInt128(wall_clock_ms), toInt128(0)
    FROM attempts FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
) AS s
GROUP BY job_id, attempt;

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
    uniqExactIf(c.job_id, c.wall_clock_ms > 0 OR c.cost_usd != 0 OR c.productive_gpu_ms > 0) AS jobs,
    uniqExactIf(c.job_id, j.state = 'completed') AS successful_jobs,
    toFloat64(sum(c.lost_gpu_milli_ms)) / 3600000000 AS lost_gpu_h,
    sumIf(c.cost_usd, j.wall_clock_ms = 0) AS untimed_cost_usd,
    sumIf(c.cost_usd - c.license_cost_usd - c.labor_cost_usd, j.wall_clock_ms = 0) AS untimed_infra_cost_usd,
    sumIf(c.storage_cost_usd, j.wall_clock_ms = 0) AS untimed_storage_cost_usd,
    sumIf(c.network_cost_usd, j.wall_clock_ms = 0) AS untimed_network_cost_usd
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
    toFloat64(cost_usd - untimed_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour,
    toFloat64(infra_cost_usd - untimed_infra_cost_usd) / nullIf(wall_clock_h, 0) AS infra_usd_per_hour,
    untimed_cost_usd
FROM level_costs;

CREATE OR REPLACE VIEW m6_storage_cost_per_hour AS
SELECT
    level,
    name,
    storage_cost_usd,
    wall_clock_h,
    toFloat64(storage_cost_usd - untimed_storage_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour
FROM level_costs;

CREATE OR REPLACE VIEW m7_egress_cost_per_hour AS
SELECT
    level,
    name,
    network_cost_usd,
    wall_clock_h,
    toFloat64(network_cost_usd - untimed_network_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour
FROM level_costs;

-- Productive: GPU-time weighted by utilisation. Tensor: weighted by the tensor cores' activity instead, over the
-- samples that name it (NULL without any). Goodput: productive time less the share of paid GPU-time that was lost,
-- productive_gpu_h x (1 - lost_gpu_h / gpu_h).
CREATE OR REPLACE VIEW m8_utilization_adjusted_cost AS
SELECT
    level,
    name,
    cost_usd,
    productive_gpu_h,
    toFloat64(cost_usd) / nullIf(productive_gpu_h, 0) AS usd_per_productive_gpu_hour,
    tensor_gpu_h,
    toFloat64(cost_usd) / nullIf(tensor_gpu_h, 0) AS usd_per_tensor_gpu_hour,
    productive_gpu_h * (1 - lost_gpu_h / nullIf(gpu_h, 0)) AS goodput_gpu_h,
    toFloat64(cost_usd) / nullIf(goodput_gpu_h, 0) AS usd_per_goodput_gpu_hour
FROM level_costs;

-- By clock hour of UTC: its cost per hour of paid time of jobs in it, weighted by that time. A minute with paid time (rows
-- with a phase) is paid from the attempt's start to its end; of one that goes on, up to what is paid. An hour without paid
-- time does not count, nor does what samples alone pay for.
CREATE OR REPLACE VIEW m10_cost_variance AS
SELECT
    level,
    name,
    count() AS hours,
    sum(t.usd) / sum(t.paid_h) AS mean_usd_per_hour,
    sqrt(arraySum(h -> h.2 * pow(h.1 / h.2 - mean_usd_per_hour, 2), groupArray((t.usd, t.paid_h))) / sum(t.paid_h))
        AS stddev_usd_per_hour,
    stddev_usd_per_hour / nullIf(mean_usd_per_hour, 0) AS variation
FROM
(
    SELECT
        level_name.1 AS level,
        level_name.2 AS name,
        h.hour AS hour,
        toFloat64(sum(h.cost_usd)) AS usd,
        toFloat64(sum(h.paid_ms)) / 3600000 AS paid_h
    FROM
    (
        SELECT
            m.job_id AS job_id,
            toStartOfHour(m.minute) AS hour,
            any(a.cluster) AS cluster,
            any(a.region) AS region,
            any(toString(a.purchase)) AS purchase,
            sum(m.usd) AS cost_usd,
            sumIf(greatest(0, least(m.end_ms, if(a.end_ms > m.start_ms, a.end_ms, m.end_ms)) - greatest(m.start_ms, a.start_ms)), m.is_paid)
                AS paid_ms
        FROM
        (
            SELECT
                job_id,
                attempt,
                minute,
                toInt64(toUnixTimestamp(minute)) * 1000 AS start_ms,
                start_ms + 60000 AS end_ms,
                sum(job_minutes.cost_usd) AS usd,
                countIf(phase != '') > 0 AS is_paid
            FROM job_minutes FINAL
            WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
            GROUP BY job_id, attempt, minute
        ) AS m
        INNER JOIN
        (
            SELECT
                job_id,
                attempt,
                cluster,
                region,
                purchase,
                toUnixTimestamp64Milli(assumeNotNull(started)) AS start_ms,
                if(ended IS NULL, start_ms + wall_clock_ms, toUnixTimestamp64Milli(assumeNotNull(ended))) AS end_ms
            FROM attempts FINAL
            WHERE started IS NOT NULL
        ) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
        GROUP BY m.job_id, m.attempt, hour
    ) AS h
    LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = h.job_id
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
    HAVING paid_h > 0
) AS t
GROUP BY level, name;
