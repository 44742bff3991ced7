-- Idle is what of a node no job pays for, minute by minute: a minute in which jobs pay more than the node costs is not idle
-- below zero, and hides no idle time of another minute or node. What they pay too much stands apart, so that
-- node cost = cost of the jobs on it + idle - overcommitted, exactly. Only nodes with events. Jobs' GPU rows count, and their
-- instance time on nodes without GPUs while the node is paid as an instance.
-- Every row is rounded to a nano-dollar on its own: only what is more than half of one per row is `overcommitted`.
CREATE OR REPLACE VIEW node_balance AS
SELECT
    minute,
    node,
    sum(s.node_cost) AS node_cost_usd,
    sum(s.job_cost) AS job_cost_usd,
    greatest(node_cost_usd - job_cost_usd, toDecimal128(0, 9)) AS idle_cost_usd,
    greatest(job_cost_usd - node_cost_usd, toDecimal128(0, 9)) AS overcommitted_cost_usd,
    2000000000 * overcommitted_cost_usd > toInt64(sum(s.lines)) AS overcommitted
FROM
(
    SELECT minute, node, sum(cost_usd) AS node_cost, toDecimal128(0, 9) AS job_cost, count() AS lines
    FROM node_minutes FINAL
    WHERE quantity != 0
    GROUP BY minute, node
    UNION ALL
    SELECT minute, node, toDecimal128(0, 9), sum(cost_usd), count()
    FROM job_minutes FINAL
    WHERE quantity != 0 AND component = 'gpu' AND node IN (SELECT node FROM node_minutes)
    GROUP BY minute, node
    UNION ALL
    SELECT minute, node, toDecimal128(0, 9), sum(cost_usd), count()
    FROM job_minutes FINAL
    WHERE quantity != 0 AND component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
        AND (minute, node) IN (
            SELECT minute, node FROM node_minutes FINAL WHERE quantity != 0 AND unit = 'instance_milli_ms')
    GROUP BY minute, node
) AS s
-- Months whose minutes of jobs were dropped would seem to be idle.
WHERE toYYYYMM(minute) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
GROUP BY minute, node;

-- The same by hour, as sums of its sixty minutes, with what the node was last in that hour, and what of its idle cost was used
-- without a job: the share of its GPU-time that samples without a job call productive, at what the node cost then, and never
-- more than was idle. Only hours of which minutes are kept, for the jobs' part comes from them.
-- Sixty sums of nano-dollars take a fifth of the memory that a group for each minute would. An hour beyond what 64 bits of
-- them hold (9 billion dollars) is netted as a whole.
CREATE OR REPLACE VIEW node_hour_balance AS
SELECT
    s.hour AS hour,
    s.node AS node,
    h.team AS team,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    h.paid_ms AS paid_ms,
    h.gpu_milli_ms AS gpu_milli_ms,
    h.unpriced_gpu_milli_ms AS unpriced_gpu_milli_ms,
    s.used_gpu_milli_ms AS used_gpu_milli_ms,
    s.unattributed_gpu_ms AS unattributed_gpu_ms,
    s.node_cost AS node_cost_usd,
    s.job_cost AS job_cost_usd,
    s.idle_cost AS idle_cost_usd,
    if(h.gpu_milli_ms = 0, toDecimal128(0, 9), least(
        s.idle_cost,
        toDecimal128(CAST(intDiv(CAST(s.node_cost * 1000000000 AS Int256) * s.unattributed_gpu_ms * 1000,
                                 toInt256(greatest(h.gpu_milli_ms, 1))) AS Int128), 0)
            * toDecimal128('0.000000001', 9))) AS unattributed_cost_usd,
    s.job_cost + s.idle_cost - s.node_cost AS overcommitted_cost_usd,
    2000000000 * (s.job_cost + s.idle_cost - s.node_cost) > toInt64(s.lines) AS overcommitted
FROM
(
    SELECT
        toStartOfHour(p.minute) AS hour,
        p.node AS node,
        sum(p.node_cost) AS node_cost,
        sum(p.job_cost) AS job_cost,
        sumResample(0, 60, 1)(reinterpretAsInt64(p.node_cost) - reinterpretAsInt64(p.job_cost), toMinute(p.minute)) AS nets_nano,
        if(node_cost + job_cost < 9000000000,
            toDecimal128(arraySum(arrayFilter(net_nano -> net_nano > 0, nets_nano)), 0) * toDecimal128('0.000000001', 9),
            greatest(node_cost - job_cost, toDecimal128(0, 9))) AS idle_cost,
        sum(p.used_gpu) AS used_gpu_milli_ms,
        sum(p.unattributed_ms) AS unattributed_gpu_ms,
        sum(p.line) AS lines
    FROM
    (
        SELECT minute, node, cost_usd AS node_cost, toDecimal64(0, 9) AS job_cost, toInt128(0) AS used_gpu, toInt64(0) AS unattributed_ms,
            toUInt64(1) AS line
        FROM node_minutes FINAL
        WHERE quantity != 0
        UNION ALL
        SELECT minute, node, toDecimal64(0, 9), cost_usd, toInt128(quantity), toInt64(0), toUInt64(1)
        FROM job_minutes FINAL
        WHERE quantity != 0 AND component = 'gpu' AND node IN (SELECT node FROM node_minutes)
        UNION ALL
        SELECT minute, node, toDecimal64(0, 9), cost_usd, toInt128(0), toInt64(0), toUInt64(1)
        FROM job_minutes FINAL
        WHERE quantity != 0 AND component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
            AND (minute, node) IN (
                SELECT minute, node FROM node_minutes FINAL WHERE quantity != 0 AND unit = 'instance_milli_ms')
        UNION ALL
        SELECT minute, node, toDecimal64(0, 9), toDecimal64(0, 9), toInt128(0), productive_ms, toUInt64(0)
        FROM unattributed_minutes FINAL
        WHERE productive_ms != 0 AND node IN (SELECT node FROM node_minutes)
    ) AS p
    WHERE toYYYYMM(hour) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
    GROUP BY hour, node
) AS s
LEFT ANY JOIN (SELECT * FROM node_hours FINAL) AS h ON h.node = s.node AND h.hour = s.hour;

-- Idle cost by hour and by whose and what the nodes are. `idle` is what no job pays, `unattributed` the part of it that was used.
CREATE OR REPLACE VIEW idle_hours AS
SELECT
    hour,
    team,
    cluster,
    gpu_type,
    instance_type,
    uniqExact(b.node) AS nodes,
    sum(b.paid_ms) AS paid_ms,
    sum(b.node_cost_usd) AS node_cost_usd,
    sum(b.job_cost_usd) AS job_cost_usd,
    sum(b.unattributed_cost_usd) AS unattributed_cost_usd,
    sum(b.idle_cost_usd) AS idle_cost_usd,
    sum(b.overcommitted_cost_usd) AS overcommitted_cost_usd
FROM node_hour_balance AS b
GROUP BY hour, team, cluster, gpu_type, instance_type;

-- M3 per day: what nobody known used, of all that the nodes cost. `unattributed_usd` is a part of `idle_cost_usd`. GPU-time
-- of nodes without a price is valued at what priced GPU-time cost on average that day, and is added to both sides.
-- What bills say of the same nodes that day stands beside it, with corrections; NULL where no line names any of them.
CREATE OR REPLACE VIEW m3_unallocated_ratio AS
SELECT
    day,
    s.node_cost AS node_cost_usd,
    s.idle_cost AS idle_cost_usd,
    s.over_cost AS overcommitted_cost_usd,
    if(n.lines = 0, NULL, CAST(round(n.billed, 9) AS Decimal(38, 9))) AS bill_usd,
    s.unattributed_cost AS unattributed_usd,
    if(s.priced_gpu = 0, 0, toFloat64(s.gpu_cost) * toFloat64(s.unpriced_gpu) / toFloat64(s.priced_gpu)) AS unpriced_usd,
    if(toFloat64(s.node_cost) + unpriced_usd = 0, NULL,
       (toFloat64(s.idle_cost) + unpriced_usd) / (toFloat64(s.node_cost) + unpriced_usd)) AS ratio
FROM
(
    SELECT
        toDate(hour) AS day,
        sum(b.node_cost_usd) AS node_cost,
        sum(b.idle_cost_usd) AS idle_cost,
        sum(b.overcommitted_cost_usd) AS over_cost,
        sum(b.unattributed_cost_usd) AS unattributed_cost,
        sumIf(b.node_cost_usd, b.gpu_milli_ms > 0) AS gpu_cost,
        sum(toInt128(b.unpriced_gpu_milli_ms)) AS unpriced_gpu,
        sum(toInt128(b.gpu_milli_ms - b.unpriced_gpu_milli_ms)) AS priced_gpu
    FROM node_hour_balance AS b
    GROUP BY day
) AS s
LEFT ANY JOIN
(
    SELECT day, sum(d.billed_usd + d.correction_usd) AS billed, sum(d.lines + d.correction_lines) AS lines
    FROM billed_days AS d
    WHERE (day, resource) IN (SELECT toDate(hour), node FROM node_hours FINAL WHERE paid_ms != 0)
    GROUP BY day
) AS n ON n.day = s.day;
