-- How much carbon dioxide equivalent a kilowatt-hour stands for in a region, hour by hour.
CREATE TABLE IF NOT EXISTS carbon_intensities
(
    region String,
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    g_per_kwh Decimal(18, 9),
    source String,
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (region, hour)
SETTINGS non_replicated_deduplication_window = 1000;
