-- What the rows of the ledger add up to, kept by the meter beside them: rows that were lost leave a difference.

CREATE TABLE IF NOT EXISTS ledger_sums
(
    table_name LowCardinality(String),
    month UInt32,
    quantity Int64,
    cost_nano Int64,
    shard UInt16,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (shard, table_name, month)
SETTINGS non_replicated_deduplication_window = 1000;
