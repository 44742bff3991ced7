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
