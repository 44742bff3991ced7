-- What [`node_hour_balance`](#node_hour_balance) reads of the days that are not [kept ready](tables.md#balance_hours): the
-- minutes of nodes, each netted with those of the jobs on it. A query needs up to 3.4 KiB of memory for each node and hour
-- that it reads, so that 128 MiB are enough for 38,000 of them, say 50 nodes and a month: of more, ask for a shorter time
-- (`hour >=`), or raise [`query.max_memory_bytes`](settings.md).

-- What was used without a job is the share of the node's GPU-time that samples without a job call productive, at what the
-- node cost then, and never more than was idle. Sixty sums of nano-dollars take a fifth of the memory that a group for each
-- minute would. An hour beyond what 64 bits of them hold (9 billion dollars) is netted as a whole.
-- PREWHERE names columns of the key, which versions of a row share, so fewer rows are read for FINAL.

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
        PREWHERE component = 'gpu' AND node IN (SELECT node FROM known_nodes WHERE has_gpus)
        WHERE quantity != 0
        UNION ALL
        SELECT minute, node, toDecimal64(0, 9), cost_usd, toInt128(0), toInt64(0), toUInt64(1)
        FROM job_minutes FINAL
        PREWHERE component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
        WHERE quantity != 0
            AND (minute, node) IN (
                SELECT minute, node FROM node_minutes FINAL PREWHERE unit = 'instance_milli_ms' AND sku != '' WHERE quantity != 0)
        UNION ALL
        SELECT minute, node, toDecimal64(0, 9), toDecimal64(0, 9), toInt128(0), productive_ms, toUInt64(0)
        FROM unattributed_minutes FINAL
        WHERE productive_ms != 0 AND node IN (SELECT node FROM known_nodes)
    ) AS p
    WHERE toYYYYMM(hour) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
    GROUP BY hour, node
) AS s
LEFT ANY JOIN (SELECT * FROM node_hours FINAL) AS h ON h.node = s.node AND h.hour = s.hour
