-- The budget and the deadline that a job states itself.
ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS budget Map(String, String) AFTER wall_clock_ms,
    ADD COLUMN IF NOT EXISTS deadline Nullable(DateTime64(3, 'UTC')) AFTER budget;

ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS budget_usd Nullable(Decimal(18, 9)) AFTER silenced,
    ADD COLUMN IF NOT EXISTS exhausted_in_s Nullable(Int64) AFTER budget_usd;

-- Up to which log time a shard had read when it stored its books: what it accrued beyond is not certain.
ALTER TABLE books
    ADD COLUMN IF NOT EXISTS read_to DateTime64(3, 'UTC') DEFAULT time AFTER time;

-- What each budget's subject has used in each period, as of the last whole minute that was judged.
CREATE TABLE IF NOT EXISTS budget_use
(
    budget String,
    subject_kind LowCardinality(String),
    subject_name String,
    per LowCardinality(String),
    period_start DateTime64(3, 'UTC'),
    period_end DateTime64(3, 'UTC'),
    match Map(String, String),
    limit_usd Decimal(18, 9),
    limit_gpu_hours Float64,
    limit_wall_clock_hours Float64,
    used_usd Decimal(18, 9),
    used_gpu_hours Float64,
    used_wall_clock_hours Float64,
    used_ratio Float64,
    usd_per_hour Decimal(18, 9),
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (budget, subject_kind, subject_name, period_start)
SETTINGS non_replicated_deduplication_window = 1000;

-- What was asked for because of budgets, each state of it a row of its own: nothing is replaced but by the same.
CREATE TABLE IF NOT EXISTS actions
(
    time DateTime64(3, 'UTC'),
    idempotency_key String,
    budget String,
    period_start DateTime64(3, 'UTC'),
    job_id String,
    rung LowCardinality(String),
    mode LowCardinality(String),
    state LowCardinality(String),
    attempt UInt32,
    spent_usd Decimal(18, 9),
    limit_usd Decimal(18, 9),
    used_ratio Float64,
    alert_id String,
    detail String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (idempotency_key, mode, state, attempt)
SETTINGS non_replicated_deduplication_window = 1000;
