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

-- The last record of each source that was not forgotten: `read` is what is metered, free and not understood.
CREATE OR REPLACE VIEW source_accounts AS
SELECT
    name,
    max(r.polled) AS polled,
    max(r.polls) AS polls,
    sum(r.entries) AS read,
    sumIf(r.entries, entry_class = 'metered') AS metered,
    sumIf(r.entries, entry_class = 'free') AS free,
    sumIf(r.entries, entry_class = 'not_understood') AS not_understood,
    arraySort(groupArrayIf(reason, standing)) AS causes
FROM
(
    SELECT name, offset, entry_class, reason, polled, polls, entries, standing, removed
    FROM sources FINAL
    WHERE (name, offset) IN (SELECT name, max(offset) FROM sources GROUP BY name) AND NOT removed
) AS r
GROUP BY name;
