-- Traffic of one price may go several ways: each has rows of its own. Empty in rows of anything else.
ALTER TABLE job_minutes
    ADD COLUMN IF NOT EXISTS path LowCardinality(String) AFTER unit,
    ADD COLUMN IF NOT EXISTS direction LowCardinality(String) AFTER path,
    ADD COLUMN IF NOT EXISTS region LowCardinality(String) AFTER direction,
    ADD COLUMN IF NOT EXISTS dst_region LowCardinality(String) AFTER region,
    ADD COLUMN IF NOT EXISTS op LowCardinality(String) AFTER dst_region,
    ADD COLUMN IF NOT EXISTS storage_class LowCardinality(String) AFTER op,
    MODIFY ORDER BY (job_id, attempt, minute, node, component, phase, sku, price_effective, unit,
        path, direction, region, dst_region, op, storage_class);

ALTER TABLE jobs
    ADD COLUMN IF NOT EXISTS quality Map(String, Float64) AFTER labels,
    ADD COLUMN IF NOT EXISTS progress Map(String, Float64) AFTER quality;

-- Lost work by hour, and which of it a retry caused. A job's last attempt was not retried: only its start-up is overhead,
-- if it is itself a retry.
CREATE OR REPLACE VIEW lost_work AS
SELECT
    h.hour AS hour,
    h.job_id AS job_id,
    h.attempt AS attempt,
    h.cloud AS cloud,
    h.region AS region,
    h.zone AS zone,
    h.cluster AS cluster,
    h.account AS account,
    h.instance_type AS instance_type,
    h.gpu_type AS gpu_type,
    h.purchase AS purchase,
    a.state AS state,
    a.reason AS reason,
    h.attempt < n.attempt AS retried,
    h.lost_gpu_milli_ms AS lost_gpu_milli_ms,
    h.lost_cost_usd AS lost_cost_usd,
    multiIf(h.attempt < n.attempt, h.lost_cost_usd, h.attempt = n.first_attempt, toDecimal64(0, 9),
            a.state NOT IN ('preempted', 'failed'), h.lost_cost_usd, h.starting_lost_cost_usd) AS retry_cost_usd
FROM
(
    SELECT * FROM job_hours FINAL
    WHERE (lost_gpu_milli_ms != 0 OR lost_cost_usd != 0) AND NOT startsWith(job_id, 'trainfare-canary.')
) AS h
LEFT ANY JOIN (SELECT job_id, attempt, state, reason FROM attempts FINAL) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt
LEFT ANY JOIN
(
    SELECT job_id, min(attempts.attempt) AS first_attempt, max(attempts.attempt) AS attempt FROM attempts FINAL GROUP BY job_id
) AS n ON n.job_id = h.job_id;

-- `region` is that of the attempt, as in every other view; `src_region` is where traffic went from. A price's revision is
-- part of a row's key, so its basis is that of the price that applied.
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
    m.version AS version,
    m.path AS path,
    m.direction AS direction,
    m.region AS src_region,
    m.dst_region AS dst_region,
    m.op AS op,
    m.storage_class AS storage_class,
    p.purchase AS price_basis,
    m.component IN ('gpu', 'compute') AND m.sku != '' AND a.purchase IN ('spot', 'reserved') AND p.purchase != a.purchase AS price_fallback
FROM (SELECT * FROM job_minutes FINAL WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')) AS m
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = m.job_id
LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
LEFT ANY JOIN (SELECT sku, effective, match['purchase'] AS purchase FROM prices FINAL) AS p
    ON p.sku = m.sku AND p.effective = m.price_effective;

-- As far back as minutes are kept.
CREATE OR REPLACE VIEW traffic_hours AS
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
GROUP BY hour, job_id, attempt, component, path, direction, region, dst_region, op, storage_class, unit;
