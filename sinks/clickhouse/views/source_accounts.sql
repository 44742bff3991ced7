-- The last record of each of [`sources`](#sources) that was not forgotten: `read` is `metered` + `free` + `not_understood`,
-- summed over its `polls`; `causes` are the reasons that stand.

SELECT
    name,
    max(r.polled) AS polled,
    max(r.polls) AS polls,
    sum(r.entries) AS read,
    sumIf(r.entries, entry_class = 'metered') AS metered,
    sumIf(r.entries, entry_class = 'free') AS free,
    sumIf(r.entries, entry_class = 'not_understood') AS not_understood,
    arraySort(groupArrayIf(reason, standing)) AS causes
FROM
(
    SELECT name, offset, entry_class, reason, polled, polls, entries, standing, removed
    FROM sources FINAL
    WHERE (name, offset) IN (SELECT name, max(offset) FROM sources GROUP BY name) AND NOT removed
) AS r
GROUP BY name
