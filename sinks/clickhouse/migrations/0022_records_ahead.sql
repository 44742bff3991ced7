-- Records whose times are ahead of the log: one row for each sender, topic and shard of a minute of log time.
CREATE TABLE IF NOT EXISTS records_ahead
(
    minute DateTime('UTC'),
    source String,
    node String,
    topic LowCardinality(String),
    shard UInt16,
    records UInt64,
    refused UInt64,
    most_ahead_ms Int64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (source, node, topic, shard, minute)
SETTINGS non_replicated_deduplication_window = 1000;
