-- What each attempt paid for in each hour, by the price fields that held then; restated as its minutes are.
CREATE TABLE IF NOT EXISTS job_hours
(
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    cloud LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    cluster LowCardinality(String),
    account LowCardinality(String),
    instance_type LowCardinality(String),
    gpu_type LowCardinality(String),
    purchase LowCardinality(String),
    wall_clock_ms Int64,
    queued_ms Int64,
    starting_ms Int64,
    gpu_milli_ms Int64,
    lost_gpu_milli_ms Int64,
    unpriced_gpu_milli_ms Int64,
    sampled_gpu_ms Int64,
    productive_gpu_ms Int64,
    tensor_gpu_ms Int64,
    tensor_sampled_gpu_ms Int64,
    gpu_cost_usd Decimal(18, 9),
    compute_cost_usd Decimal(18, 9),
    network_cost_usd Decimal(18, 9),
    storage_cost_usd Decimal(18, 9),
    license_cost_usd Decimal(18, 9),
    labor_cost_usd Decimal(18, 9),
    overhead_cost_usd Decimal(18, 9),
    lost_cost_usd Decimal(18, 9),
    starting_lost_cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (job_id, attempt, hour, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase)
SETTINGS non_replicated_deduplication_window = 1000;
