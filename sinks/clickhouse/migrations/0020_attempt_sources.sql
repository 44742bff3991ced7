-- Who said that an attempt holds what it holds; of attempts that an earlier version wrote last it is not known.
ALTER TABLE attempts ADD COLUMN IF NOT EXISTS sources Array(String) DEFAULT [] AFTER reason;
