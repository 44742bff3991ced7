-- When a bill's lines were exported, as far as its file says it: a later export of the same bill takes its place.
ALTER TABLE bill_loads
    ADD COLUMN IF NOT EXISTS exported DateTime('UTC') DEFAULT toDateTime(0, 'UTC');
