-- What a provider could bill of what was metered, by day: GPU-time, compute, network and storage. A node with events costs
-- what it is paid for, used or not. Where `job_minutes` is above `busy_minutes`, two jobs claimed the resource in one
-- minute.

-- GPU-time without a node that has events, and other components, cost what the jobs' rows say. Only nodes without GPUs are
-- paid by instance time. An account that the job does not say is the node's.

SELECT
    day,
    account,
    resource,
    sku,
    sum(s.cost) AS metered_usd,
    sum(s.lines) AS rows,
    sum(s.job_minutes) AS job_minutes,
    groupBitmapMerge(s.busy) AS busy_minutes
FROM
(
    SELECT
        toDate(p.minute) AS day,
        n.account AS account,
        p.node AS resource,
        p.sku AS sku,
        sum(p.cost_usd) AS cost,
        count() AS lines,
        toUInt64(0) AS job_minutes,
        groupBitmapStateIf(toUInt32(0), 0) AS busy
    FROM (SELECT minute, node, sku, cost_usd FROM node_minutes FINAL WHERE quantity != 0) AS p
    LEFT ANY JOIN node_accounts AS n ON n.day = toDate(p.minute) AND n.node = p.node
    GROUP BY day, account, resource, sku
    UNION ALL
    SELECT
        toDate(m.minute) AS day,
        if(a.account = '', n.account, a.account) AS account,
        multiIf(m.node != '', m.node, j.labels['resource_id'] != '', j.labels['resource_id'], m.job_id) AS resource,
        m.sku AS sku,
        sum(m.cost_usd) AS cost,
        count() AS lines,
        groupBitmapIf(toUInt32(toUnixTimestamp(m.minute) / 60), m.node != '') AS job_minutes,
        groupBitmapStateIf(toUInt32(toUnixTimestamp(m.minute) / 60), m.node != '') AS busy
    FROM
    (
        SELECT minute, job_id, attempt, node, sku, cost_usd
        FROM job_minutes FINAL
        WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')
            AND component IN ('gpu', 'compute', 'network', 'storage')
            AND NOT (component = 'gpu'
                AND node IN (SELECT node FROM node_minutes WHERE quantity != 0 AND (unit = 'gpu_milli_ms' OR sku != '')))
            AND NOT (component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
                AND node IN (SELECT node FROM node_minutes WHERE quantity != 0 AND unit = 'instance_milli_ms' AND sku != ''))
    ) AS m
    LEFT ANY JOIN (SELECT job_id, labels FROM jobs FINAL) AS j ON j.job_id = m.job_id
    LEFT ANY JOIN (SELECT job_id, attempt, account FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
    LEFT ANY JOIN node_accounts AS n ON n.day = toDate(m.minute) AND n.node = m.node
    GROUP BY day, account, resource, sku, m.job_id
) AS s
GROUP BY day, account, resource, sku
