-- Days (UTC) with hours of nodes or jobs of which minutes are kept, and which of them are kept ready: `is_kept` in
-- [`balance_hours`](tables.md#balance_hours), `has_jobs` in [`job_days`](bill_tables.md#job_days). A stamp is a hash of
-- the versions of all rows that the day is made from, and no longer that of what is kept once one of them is newer.

-- Parts of tables know their first minute. A session that reads current rows alone would read all rows for it, so there it
-- is looked for up to the oldest day that is kept ready. Where versions matter it says FINAL. What minutes change they change
-- in the hours of jobs and nodes as well, which get a new version. A stamp is one more than the sum: hours that were kept
-- without `overcommitted` have another.

SELECT
    d.day AS day,
    d.hours AS hours,
    d.stamp AS stamp,
    k.is_kept AS is_kept,
    d.job_hours AS job_hours,
    d.job_stamp AS job_stamp,
    j.has_jobs AS has_jobs,
    d.kept_from AS kept_from
FROM
(
    WITH (SELECT if(min(hour) = toDateTime(0, 'UTC'), toDateTime('2106-01-01 00:00:00', 'UTC'), min(hour) + 86400) FROM balance_hours WHERE node = '') AS oldest_kept_end,
    greatest(
        toStartOfDay((SELECT minIf(first, first != toDateTime(0, 'UTC')) FROM (
            SELECT min(minute) AS first FROM node_minutes WHERE NOT getSetting('final')
            UNION ALL
            SELECT min(minute) FROM job_minutes WHERE NOT getSetting('final')
            UNION ALL
            SELECT min(minute) FROM unattributed_minutes WHERE NOT getSetting('final')
            UNION ALL
            SELECT min(minute) FROM node_minutes WHERE getSetting('final') AND minute < oldest_kept_end
            UNION ALL
            SELECT min(minute) FROM job_minutes WHERE getSetting('final') AND minute < oldest_kept_end
            UNION ALL
            SELECT min(minute) FROM unattributed_minutes WHERE getSetting('final') AND minute < oldest_kept_end
        )), 'UTC'),
        (SELECT toDateTime(parseDateTimeBestEffortOrZero(if(value = '', '', concat(value, '01')), 'UTC'), 'UTC')
            FROM (SELECT max(value) AS value FROM meta WHERE key = 'minutes_kept_from'))) AS first_kept
    SELECT
        day,
        countIf(of = 1) AS hours,
        countIf(of = 2) AS job_hours,
        toInt64(1 + sum(cityHash64(of, name, number, at, version))) AS stamp,
        toInt64(sumIf(cityHash64(of, name, number, at, version), of = 2)) AS job_stamp,
        assumeNotNull(first_kept) AS kept_from
    FROM
    (
        SELECT toDate(hour) AS day, 1 AS of, node AS name, 0 AS number, toUnixTimestamp(hour) AS at, version
        FROM node_hours FINAL
        WHERE hour >= first_kept
        UNION ALL
        SELECT toDate(hour), 2, job_id, attempt, toUnixTimestamp(hour), version
        FROM job_hours FINAL
        WHERE hour >= first_kept
        UNION ALL
        SELECT toDate(minute), 3, concat(node, ' ', gpu), 0, toUnixTimestamp(minute), version
        FROM unattributed_minutes FINAL
        WHERE minute >= first_kept
    )
    GROUP BY day
    HAVING hours > 0 OR job_hours > 0
) AS d
LEFT ANY JOIN (SELECT toDate(hour) AS day, stamp, 1 AS is_kept FROM balance_hours WHERE node = '') AS k ON k.day = d.day AND k.stamp = d.stamp
LEFT ANY JOIN (SELECT toDate(day) AS day, stamp, 1 AS has_jobs FROM job_days WHERE job_id = '') AS j ON j.day = d.day AND j.stamp = d.job_stamp
