-- Who changed what is on record: each record of the topic controls but what collectors say, with its content and how its sender was proven.
CREATE TABLE IF NOT EXISTS changes
(
    offset Int64,
    time DateTime64(3, 'UTC'),
    kind LowCardinality(String),
    name String,
    by String,
    proof LowCardinality(String),
    address String,
    removed Bool,
    after String,
    comment String,
    source String,
    id String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY offset
SETTINGS non_replicated_deduplication_window = 1000;

-- A chain of hashes over changes: each covers its row and the hash before it, so that no row can be altered or taken away unseen.
CREATE TABLE IF NOT EXISTS change_seals
(
    offset Int64,
    time DateTime64(3, 'UTC'),
    hash String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY offset
SETTINGS non_replicated_deduplication_window = 1000;
