-- When the work of a job was safe, and how long each save took: one row for each event.
CREATE TABLE IF NOT EXISTS job_checkpoints
(
    time DateTime64(3, 'UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    duration_ms Nullable(Int64),
    source LowCardinality(String),
    id String,
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(time)
ORDER BY (job_id, attempt, time, source, id)
SETTINGS non_replicated_deduplication_window = 1000;
