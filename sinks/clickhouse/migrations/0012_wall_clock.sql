-- When in an hour an attempt was paid, as spans of ms since the hour began. Of hours that an earlier version wrote, and nothing
-- restates, only how much of it is known: it counts from their beginning.
ALTER TABLE job_hours
    ADD COLUMN IF NOT EXISTS wall_clock_from_ms Array(UInt32) DEFAULT if(wall_clock_ms > 0, [toUInt32(0)], []) AFTER wall_clock_ms,
    ADD COLUMN IF NOT EXISTS wall_clock_until_ms Array(UInt32) DEFAULT if(wall_clock_ms > 0, [toUInt32(wall_clock_ms)], []) AFTER wall_clock_from_ms;
