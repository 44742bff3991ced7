-- Traffic of one price may go several ways: each has rows of its own. Empty in rows of anything else.
ALTER TABLE job_minutes
    ADD COLUMN IF NOT EXISTS path LowCardinality(String) AFTER unit,
    ADD COLUMN IF NOT EXISTS direction LowCardinality(String) AFTER path,
    ADD COLUMN IF NOT EXISTS region LowCardinality(String) AFTER direction,
    ADD COLUMN IF NOT EXISTS dst_region LowCardinality(String) AFTER region,
    ADD COLUMN IF NOT EXISTS op LowCardinality(String) AFTER dst_region,
    ADD COLUMN IF NOT EXISTS storage_class LowCardinality(String) AFTER op,
    MODIFY ORDER BY (job_id, attempt, minute, node, component, phase, sku, price_effective, unit,
        path, direction, region, dst_region, op, storage_class);

ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS quality Map(String, Float64) AFTER labels,
    ADD COLUMN IF NOT EXISTS progress Map(String, Float64) AFTER quality;
