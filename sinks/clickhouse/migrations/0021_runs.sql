-- The run that a job is a part of, and where it was submitted from; of jobs that an earlier version wrote last neither is known.
ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS run_id String DEFAULT '' AFTER experiment,
    ADD COLUMN IF NOT EXISTS work_dir String DEFAULT '' AFTER run_id;
