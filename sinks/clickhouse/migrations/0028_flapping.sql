-- When the rule of an alert opened for its subject, the last times, and since when it does not hold while its alert stays open.
ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS openings Array(Int64) AFTER page_since,
    ADD COLUMN IF NOT EXISTS quiet_since Nullable(DateTime64(3, 'UTC')) AFTER openings;
