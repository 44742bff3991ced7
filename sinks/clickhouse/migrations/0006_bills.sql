-- Lines of providers' bills (FOCUS), as billed. A line is visible when `bill_loads` has its file and its bill as `loaded`.
CREATE TABLE IF NOT EXISTS bill_lines
(
    load_id String,
    line Int64 CODEC(DoubleDelta, ZSTD),
    invoice_issuer_name LowCardinality(String),
    provider_name LowCardinality(String),
    publisher_name LowCardinality(String),
    invoice_id String,
    billing_account_id String,
    billing_account_name String,
    sub_account_id String,
    sub_account_name String,
    billing_period_start DateTime('UTC'),
    billing_period_end DateTime('UTC'),
    charge_period_start DateTime('UTC'),
    charge_period_end DateTime('UTC'),
    charge_category LowCardinality(String),
    charge_class LowCardinality(String),
    charge_description String,
    charge_frequency LowCardinality(String),
    billing_currency LowCardinality(String),
    billed_cost Decimal(38, 18),
    effective_cost Decimal(38, 18),
    contracted_cost Nullable(Decimal(38, 18)),
    list_cost Decimal(38, 18),
    list_unit_price Nullable(Decimal(38, 18)),
    pricing_category LowCardinality(String),
    pricing_quantity Nullable(Decimal(38, 18)),
    pricing_unit LowCardinality(String),
    consumed_quantity Nullable(Decimal(38, 18)),
    consumed_unit LowCardinality(String),
    commitment_discount_id String,
    commitment_discount_status LowCardinality(String),
    service_category LowCardinality(String),
    service_name LowCardinality(String),
    resource_id String,
    resource_name String,
    resource_type LowCardinality(String),
    region_id LowCardinality(String),
    availability_zone LowCardinality(String),
    sku_id String,
    sku_price_id String,
    tags Map(String, String),
    other Map(String, String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(billing_period_start)
ORDER BY (load_id, line)
SETTINGS non_replicated_deduplication_window = 1000;

-- One row per file and bill (issuer, account, period). One insert makes a file's lines visible and hides those it replaces.
CREATE TABLE IF NOT EXISTS bill_loads
(
    load_id String,
    invoice_issuer_name String,
    billing_account_id String,
    billing_period_start DateTime('UTC'),
    billing_period_end DateTime('UTC'),
    file String,
    format LowCardinality(String),
    status LowCardinality(String),
    lines Int64,
    correction_lines Int64,
    other_currency_lines Int64,
    billed_usd Decimal(38, 18),
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (load_id, invoice_issuer_name, billing_account_id, billing_period_start)
SETTINGS non_replicated_deduplication_window = 1000;

-- What a provider could bill of what was metered, by day: a node with events costs what it is paid for, whoever uses it;
