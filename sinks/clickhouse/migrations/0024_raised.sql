-- When an alert became more urgent than it had begun: an incident is as urgent as its alerts were by then.
ALTER TABLE alerts
    ADD COLUMN IF NOT EXISTS ticket_since Nullable(DateTime64(3, 'UTC')) AFTER margins,
    ADD COLUMN IF NOT EXISTS page_since Nullable(DateTime64(3, 'UTC')) AFTER ticket_since;
