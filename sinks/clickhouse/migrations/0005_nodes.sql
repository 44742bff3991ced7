-- What was sampled of GPUs that no job has: covered seconds and productive time, by GPU and minute.
CREATE TABLE IF NOT EXISTS unattributed_minutes
(
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    gpu String,
    sampled_s Int64,
    productive_ms Int64,
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (node, gpu, minute)
SETTINGS non_replicated_deduplication_window = 1000;

-- What each node was paid for in each hour, whoever used it, and what it was last in that hour; restated as its minutes.
CREATE TABLE IF NOT EXISTS node_hours
(
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    cloud LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    cluster LowCardinality(String),
    account LowCardinality(String),
    instance_type LowCardinality(String),
    gpu_type LowCardinality(String),
    purchase LowCardinality(String),
    team LowCardinality(String),
    paid_ms Int64,
    gpu_milli_ms Int64,
    unpriced_gpu_milli_ms Int64,
    cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (node, hour)
SETTINGS non_replicated_deduplication_window = 1000;
