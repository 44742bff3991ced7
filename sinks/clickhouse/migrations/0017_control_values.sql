-- The settings of rules and plans, by which a job is judged again when somebody asks why; of records that an earlier version wrote
-- they are not known.
ALTER TABLE controls ADD COLUMN IF NOT EXISTS value String DEFAULT '' AFTER fault;
