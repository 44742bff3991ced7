-- When and from where each issued token was used last, of all workers.
CREATE TABLE IF NOT EXISTS token_uses
(
    name String,
    time DateTime64(3, 'UTC'),
    address String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY name
SETTINGS non_replicated_deduplication_window = 1000;
