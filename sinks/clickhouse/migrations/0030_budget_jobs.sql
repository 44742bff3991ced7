-- The jobs that a budget per run counts together: a training run may be submitted again as another job.
ALTER TABLE budget_use
    ADD COLUMN IF NOT EXISTS jobs Array(String) AFTER match;
