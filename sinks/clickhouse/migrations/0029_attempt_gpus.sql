-- The GPUs of each node on which samples found an attempt of a job: one row for each.
CREATE TABLE IF NOT EXISTS attempt_gpus
(
    job_id String,
    attempt UInt32,
    node String,
    gpu String,
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (job_id, attempt, node, gpu)
SETTINGS non_replicated_deduplication_window = 1000;

-- How much of its paid time a node was on its way: from `provisioned` to `ready`.
ALTER TABLE node_hours
    ADD COLUMN IF NOT EXISTS starting_ms Int64 DEFAULT 0 AFTER paid_ms;
