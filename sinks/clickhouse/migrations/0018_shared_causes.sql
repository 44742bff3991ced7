-- What alerts have in common that one cause has opened, and what their subjects paid when they opened.
ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS shared_cause String DEFAULT '' AFTER exhausted_in_s,
    ADD COLUMN IF NOT EXISTS opened_usd_per_hour Decimal(18, 9) DEFAULT 0 AFTER shared_cause;
