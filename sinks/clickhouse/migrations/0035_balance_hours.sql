-- Idle time of nodes by hour, kept ready for days that have ended: netting it by minute takes seconds for a month.
CREATE TABLE IF NOT EXISTS balance_hours
(
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    stamp Int64 CODEC(ZSTD),
    team LowCardinality(String),
    cloud LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    cluster LowCardinality(String),
    account LowCardinality(String),
    instance_type LowCardinality(String),
    gpu_type LowCardinality(String),
    purchase LowCardinality(String),
    paid_ms Int64,
    gpu_milli_ms Int64,
    unpriced_gpu_milli_ms Int64,
    used_gpu_milli_ms Int64,
    unattributed_gpu_ms Int64,
    node_cost_usd Decimal(38, 9),
    job_cost_usd Decimal(38, 9),
    idle_cost_usd Decimal(38, 9),
    unattributed_cost_usd Decimal(38, 9),
    overcommitted_cost_usd Decimal(38, 9),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (hour, node, stamp)
SETTINGS non_replicated_deduplication_window = 1000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1;
