-- Refused records that came back: where each was read again.

-- Written by whoever reads the record with the header `trainfare-replay-of`, so it is a function of the log.
CREATE TABLE IF NOT EXISTS dead_letter_replays
(
    topic LowCardinality(String),
    partition Int32,
    offset Int64,
    time DateTime64(3, 'UTC'),
    to_partition Int32,
    to_offset Int64,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (topic, partition, offset)
SETTINGS non_replicated_deduplication_window = 1000;
