-- A month that was closed: a signed manifest of its rows and bills. It is never replaced.
CREATE TABLE IF NOT EXISTS closed_months
(
    month DateTime('UTC'),
    closed DateTime64(3, 'UTC'),
    manifest String CODEC(ZSTD),
    signature String,
    key_id String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY month
SETTINGS non_replicated_deduplication_window = 1000;

-- What each job was charged in a closed month; of another `of_month` what came later for that one, as an adjustment.
CREATE TABLE IF NOT EXISTS closed_charges
(
    month DateTime('UTC'),
    of_month DateTime('UTC'),
    kind LowCardinality(String),
    team String,
    project String,
    owner String,
    experiment String,
    job_id String,
    account String,
    provider LowCardinality(String),
    service String,
    gpu_milli_ms Int64,
    cost_usd Decimal(38, 18),
    idle_usd Decimal(38, 18),
    overcommitted_cost_usd Decimal(38, 18),
    billed_usd Decimal(38, 18),
    unallocated_usd Decimal(38, 18),
    only_metered_usd Decimal(38, 18),
    license_cost_usd Decimal(38, 18),
    labor_cost_usd Decimal(38, 18),
    overhead_cost_usd Decimal(38, 18),
    charge_usd Decimal(38, 18),
    reason String,
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (month, of_month, kind, team, project, owner, experiment, job_id, account, provider, service)
SETTINGS non_replicated_deduplication_window = 1000;
