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
