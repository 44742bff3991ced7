-- The oldest snapshot that a restore of this one needs; 0 in rows of earlier versions, where a base has no parent.

ALTER TABLE snapshots ADD COLUMN IF NOT EXISTS root UInt64 DEFAULT 0 AFTER parent;
