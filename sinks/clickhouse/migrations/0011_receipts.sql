-- Receipts of jobs that ended, and of weeks: each is stored before it is sent.
CREATE TABLE IF NOT EXISTS receipts
(
    receipt_id String,
    type LowCardinality(String),
    subject_kind LowCardinality(String),
    subject_name String,
    owner String,
    begins Nullable(DateTime64(3, 'UTC')),
    ended Nullable(DateTime64(3, 'UTC')),
    cost_usd Decimal(18, 9),
    lost_usd Decimal(18, 9),
    summary String,
    message String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY receipt_id
SETTINGS non_replicated_deduplication_window = 1000;
