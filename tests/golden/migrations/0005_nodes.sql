-- What was sampled of GPUs that no job has: covered seconds and productive time, by GPU and minute.
CREATE TABLE IF NOT EXISTS unattributed_minutes
(
    minute DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    gpu String,
    sampled_s Int64,
    productive_ms Int64,
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(minute)
ORDER BY (node, gpu, minute)
SETTINGS non_replicated_deduplication_window = 1000;

-- What each node was paid for in each hour, whoever used it, and what it was last in that hour; restated as its minutes.
CREATE TABLE IF NOT EXISTS node_hours
(
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    node String,
    cloud LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    cluster LowCardinality(String),
    account LowCardinality(String),
    instance_type LowCardinality(String),
    gpu_type LowCardinality(String),
    purchase LowCardinality(String),
    team LowCardinality(String),
    paid_ms Int64,
    gpu_milli_ms Int64,
    unpriced_gpu_milli_ms Int64,
    cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (node, hour)
SETTINGS non_replicated_deduplication_window = 1000;

-- Per node and minute: node cost = cost of the jobs on it + idle, exactly. Only nodes with events. Jobs' GPU rows count, and
-- their instance time on nodes without GPUs while the node is paid as an instance.
-- Every row is rounded to a nano-dollar on its own, so idle may fall below zero by half of one per row on a node that is
-- merely full; only what is below that is `overcommitted`.
CREATE OR REPLACE VIEW node_balance AS
SELECT
    minute,
    node,
    sum(s.node_cost) AS node_cost_usd,
    sum(s.job_cost) AS job_cost_usd,
    node_cost_usd - job_cost_usd AS idle_cost_usd,
    2000000000 * idle_cost_usd < -toInt64(sum(s.lines)) AS overcommitted
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

-- The same by hour, with what the node was last in that hour, and what of its idle cost was used without a job: the share of
-- its GPU-time that samples without a job call productive, at what the node cost then, and never more than was idle. Only
-- hours of which minutes are kept, for the jobs' part comes from them.
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
    s.node_cost - s.job_cost AS idle_cost_usd,
    if(h.gpu_milli_ms = 0, toDecimal128(0, 9), least(
        greatest(s.node_cost - s.job_cost, toDecimal128(0, 9)),
        toDecimal128(CAST(intDiv(CAST(s.node_cost * 1000000000 AS Int256) * s.unattributed_gpu_ms * 1000,
                                 toInt256(greatest(h.gpu_milli_ms, 1))) AS Int128), 0)
            * toDecimal128('0.000000001', 9))) AS unattributed_cost_usd,
    2000000000 * (s.node_cost - s.job_cost) < -toInt64(s.lines) AS overcommitted
FROM
(
    SELECT
        hour,
        node,
        sum(p.node_cost) AS node_cost,
        sum(p.job_cost) AS job_cost,
        sum(p.used_gpu) AS used_gpu_milli_ms,
        sum(p.unattributed_ms) AS unattributed_gpu_ms,
        sum(p.lines) AS lines
    FROM
    (
        SELECT
            toStartOfHour(minute) AS hour,
            node,
            sum(cost_usd) AS node_cost,
            toDecimal128(0, 9) AS job_cost,
            toInt128(0) AS used_gpu,
            toInt64(0) AS unattributed_ms,
            count() AS lines
        FROM node_minutes FINAL
        WHERE quantity != 0
        GROUP BY hour, node
        UNION ALL
        SELECT toStartOfHour(minute) AS hour, node, toDecimal128(0, 9), sum(cost_usd), sum(toInt128(quantity)), 0, count()
        FROM job_minutes FINAL
        WHERE quantity != 0 AND component = 'gpu' AND node IN (SELECT node FROM node_minutes)
        GROUP BY hour, node
        UNION ALL
        SELECT toStartOfHour(minute) AS hour, node, toDecimal128(0, 9), sum(cost_usd), 0, 0, count()
        FROM job_minutes FINAL
        WHERE quantity != 0 AND component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
            AND (minute, node) IN (
                SELECT minute, node FROM node_minutes FINAL WHERE quantity != 0 AND unit = 'instance_milli_ms')
        GROUP BY hour, node
        UNION ALL
        SELECT toStartOfHour(minute) AS hour, node, toDecimal128(0, 9), toDecimal128(0, 9), 0, sum(productive_ms), 0
        FROM unattributed_minutes FINAL
        WHERE productive_ms != 0 AND node IN (SELECT node FROM node_minutes)
        GROUP BY hour, node
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
    sum(b.idle_cost_usd) AS idle_cost_usd
FROM node_hour_balance AS b
GROUP BY hour, team, cluster, gpu_type, instance_type;

-- M3 per day: what nobody known used, of all that the nodes cost. `unattributed_usd` is a part of `idle_cost_usd`. GPU-time
-- of nodes without a price is valued at what priced GPU-time cost on average that day, and is added to both sides.
CREATE OR REPLACE VIEW m3_unallocated_ratio AS
SELECT
    day,
    s.node_cost AS node_cost_usd,
    s.idle_cost AS idle_cost_usd,
    CAST(NULL AS Nullable(Decimal(38, 9))) AS bill_usd,
    s.unattributed_cost AS unattributed_usd,
    if(s.priced_gpu = 0, 0, toFloat64(s.gpu_cost) * toFloat64(s.unpriced_gpu) / toFloat64(s.priced_gpu)) AS unpriced_usd,
    if(toFloat64(s.node_cost) + unpriced_usd = 0, NULL,
       (toFloat64(s.idle_cost) + unpriced_usd) / (toFloat64(s.node_cost) + unpriced_usd)) AS ratio
FROM
(
    SELECT
        toDate(hour) AS day,
        sum(b.node_cost_usd) AS node_cost,
        sum(greatest(b.idle_cost_usd, toDecimal128(0, 9))) AS idle_cost,
        sum(b.unattributed_cost_usd) AS unattributed_cost,
        sumIf(b.node_cost_usd, b.gpu_milli_ms > 0) AS gpu_cost,
        sum(toInt128(b.unpriced_gpu_milli_ms)) AS unpriced_gpu,
        sum(toInt128(b.gpu_milli_ms - b.unpriced_gpu_milli_ms)) AS priced_gpu
    FROM node_hour_balance AS b
    GROUP BY day
) AS s;

-- Nodes with GPUs that were paid for a whole day (UTC) on which no job paid for any of them and no sample saw work.
CREATE OR REPLACE VIEW forgotten_nodes AS
SELECT
    toDate(b.hour) AS day,
    b.node AS node,
    argMax(b.team, b.hour) AS team,
    argMax(b.cluster, b.hour) AS cluster,
    argMax(b.gpu_type, b.hour) AS gpu_type,
    argMax(b.instance_type, b.hour) AS instance_type,
    sum(b.node_cost_usd) AS node_cost_usd
FROM node_hour_balance AS b
GROUP BY day, node
HAVING sum(b.paid_ms) = 86400000 AND min(b.gpu_milli_ms) > 0 AND sum(b.used_gpu_milli_ms) = 0 AND sum(b.unattributed_gpu_ms) = 0;

-- Hours in which far more nodes began to be paid than usual: at least ten, and ten times the mean of the week before.
CREATE OR REPLACE VIEW provisioning_bursts AS
SELECT hour, cluster, instance_type, nodes, usual_nodes
FROM
(
    SELECT
        hour,
        cluster,
        instance_type,
        count() AS nodes,
        sum(nodes) OVER (
            PARTITION BY cluster, instance_type ORDER BY hour RANGE BETWEEN 604800 PRECEDING AND 3600 PRECEDING) / 168 AS usual_nodes
    FROM
    (
        SELECT
            hour,
            cluster,
            instance_type,
            lagInFrame(toNullable(hour), 1) OVER (
                PARTITION BY node ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before
        FROM node_hours FINAL
        WHERE paid_ms != 0
    )
    WHERE before IS NULL OR before < hour - 3600
    GROUP BY hour, cluster, instance_type
)
WHERE nodes >= 10 AND nodes >= 10 * usual_nodes;

-- Evidence that something is too large: jobs that kept their GPUs busy for less than half of the sampled time, at least an
-- hour of it, and types of nodes of which jobs held half of the GPU-time at most.
CREATE OR REPLACE VIEW right_sizing AS
SELECT
    'job' AS subject,
    u.job_id AS name,
    j.team AS team,
    toFloat64(u.productive_ms) / toFloat64(u.sampled_ms) AS ratio,
    toFloat64(u.sampled_ms) / 3600000 AS gpu_h,
    c.cost_usd AS cost_usd
FROM
(
    SELECT job_id, sum(toInt128(productive_gpu_ms)) AS productive_ms, sum(toInt128(sampled_gpu_s)) * 1000 AS sampled_ms
    FROM job_usage_minutes FINAL
    WHERE NOT startsWith(job_id, 'trainfare-canary.')
    GROUP BY job_id
    HAVING sampled_ms >= 3600000 AND 2 * productive_ms < sampled_ms
) AS u
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = u.job_id
LEFT ANY JOIN
(
    SELECT job_id, sum(toDecimal128(cost_usd, 9)) AS cost_usd
    FROM job_minutes FINAL WHERE quantity != 0 AND component = 'gpu' GROUP BY job_id
) AS c ON c.job_id = u.job_id
UNION ALL
SELECT
    'node_type',
    if(b.instance_type = '', b.gpu_type, b.instance_type) AS name,
    '' AS team,
    toFloat64(sum(b.used_gpu_milli_ms)) / toFloat64(sum(toInt128(b.gpu_milli_ms))),
    toFloat64(sum(toInt128(b.gpu_milli_ms))) / 3600000000,
    sum(b.node_cost_usd)
FROM node_hour_balance AS b
GROUP BY name
HAVING sum(toInt128(b.gpu_milli_ms)) > 0 AND 2 * sum(b.used_gpu_milli_ms) <= sum(toInt128(b.gpu_milli_ms));
