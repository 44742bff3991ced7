-- Rules across jobs are judged from where a log begins. Of a log that an earlier version metered, which had not these
-- rules, they are judged from its last hour, as alerts of last year are of no use to anybody.
INSERT INTO meta (key, value, version)
SELECT 'hours_judged_ms', toString(1000 * toInt64(toUnixTimestamp(max(hour)))), 1
FROM job_hours
WHERE (SELECT count() FROM meta WHERE key = 'hours_judged_ms') = 0
HAVING count() > 0;
