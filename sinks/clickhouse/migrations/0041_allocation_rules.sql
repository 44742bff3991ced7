-- By which rules finance splits lines that many use together; the newest file is the whole list, and what it leaves out is removed.
CREATE TABLE IF NOT EXISTS allocation_rules
(
    rule_name String,
    place Int64,
    match Map(String, String),
    split LowCardinality(String),
    shares Map(String, Decimal(38, 18)),
    from_time DateTime('UTC'),
    to_time DateTime('UTC'),
    is_removed UInt8,
    source String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (rule_name)
SETTINGS non_replicated_deduplication_window = 1000;

-- The team that bears a part without a job: a line may put parts on several, and each is a row.
ALTER TABLE bill_parts
    ADD COLUMN IF NOT EXISTS team String,
    MODIFY ORDER BY (month, allocation, load_id, line, kind, job_id, cluster, gpu_type, account, provider, service, how, cost, team);

ALTER TABLE bill_parts
    ADD COLUMN IF NOT EXISTS rule LowCardinality(String);
