-- The canary: a job of known cost that runs through the whole pipe now and then, to see that it is right and in time.

-- A short memory: rows go a month after they were written.
CREATE TABLE IF NOT EXISTS canary
(
    time DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    shard UInt16,
    expected_usd Decimal(18, 9),
    found_usd Nullable(Decimal(18, 9)),
    delay_ms Nullable(Int64),
    outcome LowCardinality(String),
    detail String,
    version UInt64,
    written DateTime('UTC') DEFAULT now()
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(time)
ORDER BY (time, job_id)
TTL written + INTERVAL 30 DAY
SETTINGS non_replicated_deduplication_window = 1000;

-- It is no user's job: the tables have its rows, no view that adds up or counts has them. The condition is on the
-- first column of every key, so what it leaves out is not read. The views are else as they were.

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
    sum(s.wall_clock) AS wall_clock_ms
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
        toInt128(0) AS wall_clock
    FROM job_minutes FINAL
    WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        sum(toInt128(productive_gpu_ms)), sum(toInt128(tensor_gpu_ms)), toInt128(0)
    FROM job_usage_minutes FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        toInt128(0), toInt128(0), toInt128(wall_clock_ms)
    FROM attempts FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
) AS s
GROUP BY job_id, attempt;

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
        WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
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
