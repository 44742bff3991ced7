-- What was bought for a time, whether it is used or not; the newest file is the whole list, and what it leaves out is removed.
CREATE TABLE IF NOT EXISTS commitments
(
    commitment_id String,
    kind LowCardinality(String),
    provider LowCardinality(String),
    team String,
    from_time DateTime('UTC'),
    to_time DateTime('UTC'),
    cost_usd Decimal(38, 9),
    gpu_milli Int64,
    usd_per_hour Decimal(18, 9),
    cloud String,
    region String,
    zone String,
    cluster String,
    account String,
    instance_type String,
    gpu_type String,
    purchase String,
    is_removed UInt8,
    source String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (commitment_id)
SETTINGS non_replicated_deduplication_window = 1000;
