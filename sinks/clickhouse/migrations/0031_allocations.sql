-- What each line of a bill puts on each job, on idle time, and on nobody. `allocated_months` says which allocation of a month counts.
CREATE TABLE IF NOT EXISTS bill_parts
(
    month DateTime('UTC'),
    allocation Int64,
    load_id String,
    line Int64,
    kind LowCardinality(String),
    job_id String,
    cluster LowCardinality(String),
    gpu_type LowCardinality(String),
    account String,
    provider LowCardinality(String),
    service LowCardinality(String),
    how LowCardinality(String),
    cost LowCardinality(String),
    usd Decimal(38, 18),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(month)
ORDER BY (month, allocation, load_id, line, kind, job_id, cluster, gpu_type, account, provider, service, how, cost)
SETTINGS non_replicated_deduplication_window = 1000;

-- What a job was billed in a month, beside what it was metered, and why the two differ.
CREATE TABLE IF NOT EXISTS job_bills
(
    month DateTime('UTC'),
    allocation Int64,
    job_id String,
    metered_usd Decimal(38, 18),
    only_metered_usd Decimal(38, 18),
    billed_usd Decimal(38, 18),
    effective_usd Decimal(38, 18),
    list_usd Decimal(38, 18),
    causes Map(String, Decimal(38, 18)),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (month, allocation, job_id)
SETTINGS non_replicated_deduplication_window = 1000;

-- One insert makes an allocation of a month count in the place of the one before it.
CREATE TABLE IF NOT EXISTS allocated_months
(
    month DateTime('UTC'),
    allocation Int64,
    jobs Int64,
    parts Int64,
    metered_usd Decimal(38, 18),
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY month
SETTINGS non_replicated_deduplication_window = 1000;
