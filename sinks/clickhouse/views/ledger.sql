-- `job_minutes` with the dimensions of job and attempt beside each row. `region` is the attempt's, `src_region` that of
-- traffic. `price_basis` is the `purchase` that the price asks for, empty where it asks for none. `price_fallback`: the
-- attempt is `spot` or `reserved` (as it last said), and its GPUs or instances were priced by a price that is not of that
-- purchase, such as the one on demand.

-- A price's revision is part of a row's key, so its basis is that of the price that applied.

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
    ON p.sku = m.sku AND p.effective = m.price_effective
