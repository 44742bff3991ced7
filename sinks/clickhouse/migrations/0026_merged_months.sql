-- The hours of a month become one part an hour after the last of them was written: what is one part is read without comparing
-- versions, a year of hours in a quarter of the time. Late events begin the hour anew, and months in which hours are written are left alone.
ALTER TABLE job_hours
    MODIFY SETTING min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1;
ALTER TABLE node_hours
    MODIFY SETTING min_age_to_force_merge_seconds = 3600, min_age_to_force_merge_on_partition_only = 1;
