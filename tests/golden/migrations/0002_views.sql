-- The views need no FINAL: each reads the newest version of every row. The canary is no user's job: the tables have its
-- rows, no view that adds up or counts does. The condition is on the first column of every key, so its rows are not read.

CREATE OR REPLACE VIEW ledger AS
SELECT
    m.minute AS minute,
    m.job_id AS job_id,
    m.attempt AS attempt,
    m.node AS node,
    m.component AS component,
    m.phase AS phase,
    m.sku AS sku,
    m.price_effective AS price_effective,
    m.price_usd AS price_usd,
    m.quantity AS quantity,
    m.unit AS unit,
    m.cost_usd AS cost_usd,
    m.lost_quantity AS lost_quantity,
    m.lost_cost_usd AS lost_cost_usd,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.state AS state,
    j.labels AS labels,
    a.cluster AS cluster,
    a.region AS region,
    a.purchase AS purchase,
    a.cloud AS cloud,
    a.gpu_type AS gpu_type,
    a.instance_type AS instance_type,
    m.version AS version
FROM (SELECT * FROM job_minutes FINAL WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')) AS m
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = m.job_id
LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt;

CREATE OR REPLACE VIEW usage AS
SELECT
    minute,
    job_id,
    attempt,
    sum(u.sampled_gpu_s) AS sampled_gpu_s,
    sum(u.productive_gpu_ms) AS productive_gpu_ms,
    sum(u.sm_gpu_ms) AS sm_gpu_ms,
    sum(u.sm_sampled_gpu_s) AS sm_sampled_gpu_s,
    sum(u.tensor_gpu_ms) AS tensor_gpu_ms,
    sum(u.tensor_sampled_gpu_s) AS tensor_sampled_gpu_s,
    max(u.memory_used_mib_max) AS memory_used_mib_max,
    max(u.power_w_max) AS power_w_max
FROM job_usage_minutes AS u FINAL
WHERE u.sampled_gpu_s != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
GROUP BY minute, job_id, attempt;

-- A job that is metered by samples alone has cost and no run time: its cost is no part of a rate per hour that others ran.
-- Lost time is a share of GPU-time: dollars of traffic do not change it. A job that never ran is no job of an experiment.
-- Where a job ran for some minutes of a clock hour, its cost is divided by the time that was paid in that hour.
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

-- One row per job of `jobs`, also one without any cost. Infrastructure is all but licence and labour.
CREATE OR REPLACE VIEW job_costs AS
SELECT
    j.job_id AS job_id,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.state AS state,
    j.attempts AS attempts,
    toDecimal128(j.wall_clock_ms, 3) / 1000 AS wall_clock_s,
    toDecimal128(c.gpu_milli_ms, 6) / 1000000 AS gpu_s,
    toDecimal128(c.productive_gpu_ms, 3) / 1000 AS productive_gpu_s,
    c.cost_usd AS cost_usd,
    c.gpu_cost_usd AS gpu_cost_usd,
    c.compute_cost_usd AS compute_cost_usd,
    c.network_cost_usd AS network_cost_usd,
    c.storage_cost_usd AS storage_cost_usd,
    c.license_cost_usd AS license_cost_usd,
    c.labor_cost_usd AS labor_cost_usd,
    c.overhead_cost_usd AS overhead_cost_usd,
    c.cost_usd - c.license_cost_usd - c.labor_cost_usd AS infra_cost_usd,
    c.lost_cost_usd AS lost_cost_usd,
    j.labels AS labels,
    j.started AS started,
    j.ended AS ended
FROM (SELECT * FROM jobs FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')) AS j
LEFT ANY JOIN
(
    SELECT
        job_id,
        sum(t.cost_usd) AS cost_usd,
        sum(t.gpu_cost_usd) AS gpu_cost_usd,
        sum(t.compute_cost_usd) AS compute_cost_usd,
        sum(t.network_cost_usd) AS network_cost_usd,
        sum(t.storage_cost_usd) AS storage_cost_usd,
        sum(t.license_cost_usd) AS license_cost_usd,
        sum(t.labor_cost_usd) AS labor_cost_usd,
        sum(t.overhead_cost_usd) AS overhead_cost_usd,
        sum(t.lost_cost_usd) AS lost_cost_usd,
        sum(t.gpu_milli_ms) AS gpu_milli_ms,
        sum(t.productive_gpu_ms) AS productive_gpu_ms
    FROM attempt_costs AS t
    GROUP BY job_id
) AS c ON c.job_id = j.job_id;

-- Per node and minute: node cost = cost of the jobs' GPU rows on it + idle, exactly. Only nodes with events.
-- Every row is rounded to a nano-dollar on its own, so idle may fall below zero by half of one per row on a
-- node that is merely full; only what is below that is `overcommitted`.
CREATE OR REPLACE VIEW node_balance AS
SELECT
    minute,
    node,
    sum(s.node_cost) AS node_cost_usd,
    sum(s.job_cost) AS job_cost_usd,
    node_cost_usd - job_cost_usd AS idle_cost_usd,
    2000000000 * idle_cost_usd < -toInt64(sum(s.lines)) AS overcommitted
FROM
(
    SELECT minute, node, sum(cost_usd) AS node_cost, toDecimal128(0, 9) AS job_cost, count() AS lines
    FROM node_minutes FINAL
    WHERE quantity != 0
    GROUP BY minute, node
    UNION ALL
    SELECT minute, node, toDecimal128(0, 9), sum(cost_usd), count()
    FROM job_minutes FINAL
    WHERE quantity != 0 AND component = 'gpu' AND node IN (SELECT node FROM node_minutes)
    GROUP BY minute, node
) AS s
GROUP BY minute, node;

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

-- The newest burn rate of each job. A job that ended burns less and less and then has a row of zeros.
CREATE OR REPLACE VIEW burn_now AS
SELECT
    job_id,
    max(b.time) AS time,
    argMax(b.usd_per_hour, b.time) AS usd_per_hour,
    argMax(b.usd_per_hour_15m, b.time) AS usd_per_hour_15m,
    argMax(b.usd_per_hour_1h, b.time) AS usd_per_hour_1h,
    argMax(b.usd_per_hour_6h, b.time) AS usd_per_hour_6h,
    argMax(b.expected_usd_per_hour, b.time) AS expected_usd_per_hour,
    argMax(b.usd_per_hour_now, b.time) AS usd_per_hour_now,
    argMax(b.ratio_15m, b.time) AS ratio_15m
FROM (SELECT * FROM burn_rates FINAL WHERE NOT startsWith(job_id, 'trainfare-canary.')) AS b
GROUP BY b.job_id;

-- Whoever has written nothing for 11 minutes burns nothing: while a job burns, its rows are 10 minutes apart at most.
CREATE OR REPLACE VIEW m4_burn_rate AS
SELECT
    level_name.1 AS level,
    level_name.2 AS name,
    max(b.time) AS time,
    sum(b.usd_per_hour) AS usd_per_hour,
    sum(b.usd_per_hour_15m) AS usd_per_hour_15m,
    sum(b.usd_per_hour_1h) AS usd_per_hour_1h,
    sum(b.usd_per_hour_6h) AS usd_per_hour_6h,
    sum(b.expected_usd_per_hour) AS expected_usd_per_hour
FROM burn_now AS b
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = b.job_id
ARRAY JOIN
[
    ('job', b.job_id),
    ('owner', j.owner),
    ('team', j.team),
    ('project', j.project),
    ('experiment', j.experiment),
    ('cluster', j.cluster),
    ('region', j.region),
    ('purchase', toString(j.purchase))
] AS level_name
WHERE level_name.1 = 'job' OR b.time > (SELECT max(time) FROM burn_rates WHERE NOT startsWith(job_id, 'trainfare-canary.')) - INTERVAL 11 MINUTE
GROUP BY level, name;
