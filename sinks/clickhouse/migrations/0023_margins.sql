-- How far the rules that are judged on the ledger were beyond their thresholds when they opened.
ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS margins String DEFAULT '' AFTER opened_usd_per_hour;
