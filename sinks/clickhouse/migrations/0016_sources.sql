-- What became of all that each source was read for: one row for each class and reason of a record, and one for what is metered.
CREATE TABLE IF NOT EXISTS sources
(
    name String,
    offset Int64,
    entry_class LowCardinality(String),
    reason LowCardinality(String),
    time DateTime64(3, 'UTC'),
    polled DateTime64(3, 'UTC'),
    polls UInt64,
    entries UInt64,
    example String,
    standing Bool,
    removed Bool,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (name, offset, entry_class, reason)
SETTINGS non_replicated_deduplication_window = 1000;
