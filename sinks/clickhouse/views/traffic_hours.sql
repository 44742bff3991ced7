-- Network and storage by hour: how much of `unit` went which way, or was done to which class of storage, and what it cost.
-- It adds up `job_minutes`, so it reaches back as far as minutes are kept.

SELECT
    toStartOfHour(m.minute) AS hour,
    job_id,
    attempt,
    component,
    path,
    direction,
    region,
    dst_region,
    op,
    storage_class,
    unit,
    sum(toInt128(m.quantity)) AS quantity,
    sum(m.cost_usd) AS cost_usd,
    sum(m.lost_cost_usd) AS lost_cost_usd
FROM job_minutes AS m FINAL
WHERE component IN ('network', 'storage') AND m.quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
GROUP BY hour, job_id, attempt, component, path, direction, region, dst_region, op, storage_class, unit
