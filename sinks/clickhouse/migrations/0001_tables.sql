-- Tables of the meter. Rows are absolute: of equal keys the greatest version counts.
-- All versions of a key lie in one partition (its own month), so FINAL need not look across partitions.
-- The windows let the server recognise a retried insert by its token.
CREATE TABLE IF NOT EXISTS job_minutes
(
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    node String,
    component LowCardinality(String),
    phase LowCardinality(String),
    sku LowCardinality(String),
    price_effective DateTime64(3, 'UTC'),
    price_usd Decimal(18, 9),
    quantity Int64,
    unit LowCardinality(String),
    cost_usd Decimal(18, 9),
    lost_quantity Int64,
    lost_cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (job_id, attempt, minute, node, component, phase, sku, price_effective, unit)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS job_usage_minutes
(
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    node String,
    sampled_gpu_s Int64,
    productive_gpu_ms Int64,
    sm_gpu_ms Int64,
    sm_sampled_gpu_s Int64,
    tensor_gpu_ms Int64,
    tensor_sampled_gpu_s Int64,
    memory_used_mib_max Int64,
    power_w_max Int64,
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (job_id, attempt, minute, node)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS jobs
(
    job_id String,
    owner String,
    team String,
    project String,
    experiment String,
    labels Map(String, String),
    state LowCardinality(String),
    attempts UInt32,
    first_event DateTime64(3, 'UTC'),
    last_event DateTime64(3, 'UTC'),
    started Nullable(DateTime64(3, 'UTC')),
    ended Nullable(DateTime64(3, 'UTC')),
    cluster String,
    region String,
    cloud String,
    purchase LowCardinality(String),
    gpu_type String,
    instance_type String,
    gpu_count Decimal(18, 3),
    wall_clock_ms Int64,
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY job_id
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS attempts
(
    job_id String,
    attempt UInt32,
    state LowCardinality(String),
    reason LowCardinality(String),
    started Nullable(DateTime64(3, 'UTC')),
    ended Nullable(DateTime64(3, 'UTC')),
    cloud String,
    region String,
    zone String,
    cluster String,
    account String,
    instance_type String,
    gpu_type String,
    purchase LowCardinality(String),
    gpu_count Decimal(18, 3),
    wall_clock_ms Int64,
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (job_id, attempt)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS node_minutes
(
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    sku LowCardinality(String),
    price_effective DateTime64(3, 'UTC'),
    price_usd Decimal(18, 9),
    quantity Int64,
    unit LowCardinality(String),
    cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (node, minute, sku, price_effective, unit)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS prices
(
    sku String,
    component LowCardinality(String),
    usd Decimal(18, 9),
    per LowCardinality(String),
    gpus UInt32,
    effective DateTime64(3, 'UTC'),
    match Map(String, String),
    source String,
    id String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (sku, effective)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS dead_letters
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    reason LowCardinality(String),
    detail String,
    raw String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, partition, offset)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS archive
(
    shard UInt16,
    job_id String,
    blob String CODEC(NONE),
    first_ms Int64,
    last_ms Int64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (shard, job_id, version)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS snapshots
(
    shard UInt16,
    version UInt64,
    parent UInt64,
    root UInt64 DEFAULT 0,  -- the oldest snapshot that a restore of this one needs
    chunk UInt32,
    chunks UInt32,
    checksum UInt64,
    blob String CODEC(NONE)
)
ENGINE = MergeTree
ORDER BY (shard, version, chunk)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS meta
(
    key String,
    value String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY key
SETTINGS non_replicated_deduplication_window = 1000;

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

-- The books: what became of every record of the log, per partition, and of which kinds the dead letters are.
-- Rows are as of an offset of the log: nothing at or after `next_offset` is counted, nothing before it is left out.
CREATE TABLE IF NOT EXISTS books
(
    topic LowCardinality(String),
    partition Int32,
    first_offset Int64,
    next_offset Int64,
    records_in Int64,
    applied Int64,
    unattributed Int64 DEFAULT 0,  -- samples of GPUs that no job has
    duplicate Int64,
    too_late Int64,
    dead_lettered Int64,
    trimmed Int64,
    time DateTime64(3, 'UTC'),
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, partition)
SETTINGS non_replicated_deduplication_window = 1000;

CREATE TABLE IF NOT EXISTS dead_letter_counts
(
    topic LowCardinality(String),
    partition Int32,
    reason LowCardinality(String),
    records Int64,
    stored Int64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, partition, reason)
SETTINGS non_replicated_deduplication_window = 1000;

-- Refused records that came back: where each was read again.
-- Written by whoever reads the record with the header `trainfare-replay-of`, so it is a function of the log.
CREATE TABLE IF NOT EXISTS dead_letter_replays
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    time DateTime64(3, 'UTC'),
    to_partition Int32,
    to_offset Int64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, partition, offset)
SETTINGS non_replicated_deduplication_window = 1000;

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

-- What the rows of the ledger add up to, kept by the meter beside them: rows that were lost leave a difference.
CREATE TABLE IF NOT EXISTS ledger_sums
(
    table_name LowCardinality(String),
    month UInt32,
    quantity Int64,
    cost_nano Int64,
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (shard, table_name, month)
SETTINGS non_replicated_deduplication_window = 1000;
