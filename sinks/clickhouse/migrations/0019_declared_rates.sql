-- The rate that a job had declared by the end of its first five whole minutes: its size is expected up to that.
ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS declared_usd_per_hour Decimal(18, 9) DEFAULT 0 AFTER deadline;
