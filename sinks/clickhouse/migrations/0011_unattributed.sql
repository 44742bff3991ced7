-- Samples of GPUs that no job has are no longer counted as applied; what was counted before stays where it was.

ALTER TABLE books ADD COLUMN IF NOT EXISTS unattributed Int64 DEFAULT 0 AFTER applied;
