-- Views of current rows: FINAL is inside, rows of quantity 0 do not show. Tables of dimensions are joined
-- with ANY: they have one row per key after FINAL.

CREATE OR REPLACE VIEW ledger AS
SELECT
    m.minute AS minute,
    m.job_id AS job_id,
    m.attempt AS attempt,
    m.node AS node,
    m.component AS component,
    m.phase AS phase,
    m.sku AS sku,
    m.price_effective AS price_effective,
    m.price_usd AS price_usd,
    m.quantity AS quantity,
    m.unit AS unit,
    m.cost_usd AS cost_usd,
    m.lost_quantity AS lost_quantity,
    m.lost_cost_usd AS lost_cost_usd,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.state AS state,
    j.labels AS labels,
    a.cluster AS cluster,
    a.region AS region,
    a.purchase AS purchase,
    a.cloud AS cloud,
    a.gpu_type AS gpu_type,
    a.instance_type AS instance_type,
    m.version AS version
FROM (SELECT * FROM job_minutes FINAL WHERE quantity != 0) AS m
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = m.job_id
LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt;

CREATE OR REPLACE VIEW usage AS
SELECT
    minute,
    job_id,
    attempt,
    sum(u.sampled_gpu_s) AS sampled_gpu_s,
    sum(u.productive_gpu_ms) AS productive_gpu_ms,
    sum(u.sm_gpu_ms) AS sm_gpu_ms,
    sum(u.sm_sampled_gpu_s) AS sm_sampled_gpu_s,
    sum(u.tensor_gpu_ms) AS tensor_gpu_ms,
    sum(u.tensor_sampled_gpu_s) AS tensor_sampled_gpu_s,
    max(u.memory_used_mib_max) AS memory_used_mib_max,
    max(u.power_w_max) AS power_w_max
FROM job_usage_minutes AS u FINAL
WHERE u.sampled_gpu_s != 0
GROUP BY minute, job_id, attempt;

-- Per attempt, once for all views below. The three sources are added up rather than joined, so that no money
-- is left out where a row of another source is missing. Quantities are summed in 128 bits.
CREATE OR REPLACE VIEW attempt_costs AS
SELECT
    job_id,
    attempt,
    sum(s.cost) AS cost_usd,
    sum(s.gpu_cost) AS gpu_cost_usd,
    sum(s.compute_cost) AS compute_cost_usd,
    sum(s.network_cost) AS network_cost_usd,
    sum(s.storage_cost) AS storage_cost_usd,
    sum(s.license_cost) AS license_cost_usd,
    sum(s.labor_cost) AS labor_cost_usd,
    sum(s.overhead_cost) AS overhead_cost_usd,
    sum(s.lost_cost) AS lost_cost_usd,
    sum(s.gpu) AS gpu_milli_ms,
    sum(s.productive) AS productive_gpu_ms,
    sum(s.tensor) AS tensor_gpu_ms,
    sum(s.wall_clock) AS wall_clock_ms
FROM
(
    SELECT
        job_id,
        attempt,
        sum(cost_usd) AS cost,
        sumIf(cost_usd, component = 'gpu') AS gpu_cost,
        sumIf(cost_usd, component = 'compute') AS compute_cost,
        sumIf(cost_usd, component = 'network') AS network_cost,
        sumIf(cost_usd, component = 'storage') AS storage_cost,
        sumIf(cost_usd, component = 'license') AS license_cost,
        sumIf(cost_usd, component = 'labor') AS labor_cost,
        sumIf(cost_usd, component = 'overhead') AS overhead_cost,
        sum(lost_cost_usd) AS lost_cost,
        sumIf(toInt128(quantity), component = 'gpu') AS gpu,
        toInt128(0) AS productive,
        toInt128(0) AS tensor,
        toInt128(0) AS wall_clock
    FROM job_minutes FINAL
    WHERE quantity != 0
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        sum(toInt128(productive_gpu_ms)), sum(toInt128(tensor_gpu_ms)), toInt128(0)
    FROM job_usage_minutes FINAL
    GROUP BY job_id, attempt
    UNION ALL
    SELECT
        job_id, attempt,
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9),
        toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toDecimal128(0, 9), toInt128(0),
        toInt128(0), toInt128(0), toInt128(wall_clock_ms)
    FROM attempts FINAL
) AS s
GROUP BY job_id, attempt;

-- One row per job of `jobs`, also one without any cost. Infrastructure is all but licence and labour.
CREATE OR REPLACE VIEW job_costs AS
SELECT
    j.job_id AS job_id,
    j.owner AS owner,
    j.team AS team,
    j.project AS project,
    j.experiment AS experiment,
    j.state AS state,
    j.attempts AS attempts,
    toDecimal128(j.wall_clock_ms, 3) / 1000 AS wall_clock_s,
    toDecimal128(c.gpu_milli_ms, 6) / 1000000 AS gpu_s,
    toDecimal128(c.productive_gpu_ms, 3) / 1000 AS productive_gpu_s,
    c.cost_usd AS cost_usd,
    c.gpu_cost_usd AS gpu_cost_usd,
    c.compute_cost_usd AS compute_cost_usd,
    c.network_cost_usd AS network_cost_usd,
    c.storage_cost_usd AS storage_cost_usd,
    c.license_cost_usd AS license_cost_usd,
    c.labor_cost_usd AS labor_cost_usd,
    c.overhead_cost_usd AS overhead_cost_usd,
    c.cost_usd - c.license_cost_usd - c.labor_cost_usd AS infra_cost_usd,
    c.lost_cost_usd AS lost_cost_usd,
    j.labels AS labels,
    j.started AS started,
    j.ended AS ended
FROM (SELECT * FROM jobs FINAL) AS j
LEFT ANY JOIN
(
    SELECT
        job_id,
        sum(t.cost_usd) AS cost_usd,
        sum(t.gpu_cost_usd) AS gpu_cost_usd,
        sum(t.compute_cost_usd) AS compute_cost_usd,
        sum(t.network_cost_usd) AS network_cost_usd,
        sum(t.storage_cost_usd) AS storage_cost_usd,
        sum(t.license_cost_usd) AS license_cost_usd,
        sum(t.labor_cost_usd) AS labor_cost_usd,
        sum(t.overhead_cost_usd) AS overhead_cost_usd,
        sum(t.lost_cost_usd) AS lost_cost_usd,
        sum(t.gpu_milli_ms) AS gpu_milli_ms,
        sum(t.productive_gpu_ms) AS productive_gpu_ms
    FROM attempt_costs AS t
    GROUP BY job_id
) AS c ON c.job_id = j.job_id;

-- Per node and minute: node cost = cost of the jobs' GPU rows on it + idle, exactly. Only nodes with events.
-- Every row is rounded to a nano-dollar on its own, so idle may fall below zero by half of one per row on a
-- node that is merely full; only what is below that is `overcommitted`.
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
) AS s
GROUP BY minute, node;
