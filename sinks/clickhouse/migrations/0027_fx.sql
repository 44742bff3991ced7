-- What a currency cost in dollars on each day: `units` of it cost `dollars`. A newer file restates.
CREATE TABLE IF NOT EXISTS fx_rates
(
    currency LowCardinality(String),
    day DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    units Decimal(38, 18),
    dollars Decimal(38, 18),
    source String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (currency, day)
SETTINGS non_replicated_deduplication_window = 1000;

-- The rate of the invoice itself, where it says one.
ALTER TABLE bill_lines
    ADD COLUMN IF NOT EXISTS units_per_usd Nullable(Decimal(38, 18)) AFTER billing_currency;
