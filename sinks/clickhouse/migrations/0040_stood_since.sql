-- Since when a job stands still, as known when its alert opened: what stopped at one time has one cause.
ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS stood_since Nullable(DateTime64(3, 'UTC')) AFTER quiet_since;
