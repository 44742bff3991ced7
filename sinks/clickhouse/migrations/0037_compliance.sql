-- What prices by label of the job come to: scans, encrypted storage, isolated nodes.
ALTER TABLE job_hours
    ADD COLUMN IF NOT EXISTS compliance_cost_usd Decimal(18, 9) DEFAULT 0 AFTER overhead_cost_usd;
