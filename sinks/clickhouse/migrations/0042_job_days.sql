-- Rows of `job_minutes` by day, kept ready for days that have ended: a month has millions of them.
CREATE TABLE IF NOT EXISTS job_days
(
    day DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    node String,
    component LowCardinality(String),
    sku LowCardinality(String),
    unit LowCardinality(String),
    stamp Int64 CODEC(ZSTD),
    quantity Decimal(38, 0),
    cost_usd Decimal(38, 9),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(day)
ORDER BY (day, job_id, attempt, node, component, sku, unit, stamp)
SETTINGS non_replicated_deduplication_window = 1000, min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1;
