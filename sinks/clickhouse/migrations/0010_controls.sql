-- What each record of the topic controls asked for, without addresses: who silenced, planned or acknowledged what, until when.
CREATE TABLE IF NOT EXISTS controls
(
    offset Int64,
    time DateTime64(3, 'UTC'),
    kind LowCardinality(String),
    name String,
    alert_id String,
    match Map(String, String),
    begins Nullable(DateTime64(3, 'UTC')),
    until Nullable(DateTime64(3, 'UTC')),
    planned_usd_per_hour Nullable(Decimal(18, 9)),
    by String,
    comment String,
    source String,
    id String,
    removed Bool,
    fault String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY offset
SETTINGS non_replicated_deduplication_window = 1000;
