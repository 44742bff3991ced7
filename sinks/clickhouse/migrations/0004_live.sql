-- Burn rates, alerts and what became of their messages.

-- A short memory: rows go a week after they were written, whatever instant they speak of.
CREATE TABLE IF NOT EXISTS burn_rates
(
    time DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    usd_per_hour Decimal(18, 9),
    usd_per_hour_15m Decimal(18, 9),
    usd_per_hour_1h Decimal(18, 9),
    usd_per_hour_6h Decimal(18, 9),
    expected_usd_per_hour Decimal(18, 9),
    usd_per_hour_now Decimal(18, 9),
    ratio_15m Float64,
    shard UInt16,
    version UInt64,
    written DateTime('UTC') DEFAULT now(),
    INDEX times time TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(time)
ORDER BY (job_id, time)
TTL written + INTERVAL 7 DAY
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS alerts
(
    alert_id String,
    rule LowCardinality(String),
    severity LowCardinality(String),
    status LowCardinality(String),
    subject_kind LowCardinality(String),
    subject_name String,
    owner String,
    team String,
    project String,
    started DateTime64(3, 'UTC'),
    resolved Nullable(DateTime64(3, 'UTC')),
    ratio Float64,
    usd_per_hour Decimal(18, 9),
    expected_usd_per_hour Decimal(18, 9),
    cost_usd Decimal(18, 9),
    window_ms Int64,
    summary String,
    evidence_sql String,
    held DateTime64(3, 'UTC'),
    changed DateTime64(3, 'UTC'),
    firings UInt32,
    silenced Bool,
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY alert_id
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS deliveries
(
    time DateTime64(3, 'UTC'),
    alert_id String,
    webhook_id String,
    status LowCardinality(String),
    receiver String,
    attempt UInt32,
    outcome LowCardinality(String),
    http_status UInt16,
    detail String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (alert_id, webhook_id, receiver, attempt)
SETTINGS non_replicated_deduplication_window = 1000;

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
FROM (SELECT * FROM burn_rates FINAL) AS b
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
WHERE level_name.1 = 'job' OR b.time > (SELECT max(time) FROM burn_rates) - INTERVAL 11 MINUTE
GROUP BY level, name;
