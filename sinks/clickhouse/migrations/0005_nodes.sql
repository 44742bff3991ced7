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
