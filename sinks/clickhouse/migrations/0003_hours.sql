-- What each attempt paid for in each hour, by the price fields that held then; restated as its minutes are.
CREATE TABLE IF NOT EXISTS job_hours
(
    hour DateTime('UTC') CODEC(DoubleDelta, ZSTD),
    job_id String,
    attempt UInt32,
    cloud LowCardinality(String),
    region LowCardinality(String),
    zone LowCardinality(String),
    cluster LowCardinality(String),
    account LowCardinality(String),
    instance_type LowCardinality(String),
    gpu_type LowCardinality(String),
    purchase LowCardinality(String),
    wall_clock_ms Int64,
    queued_ms Int64,
    starting_ms Int64,
    gpu_milli_ms Int64,
    lost_gpu_milli_ms Int64,
    unpriced_gpu_milli_ms Int64,
    sampled_gpu_ms Int64,
    productive_gpu_ms Int64,
    tensor_gpu_ms Int64,
    tensor_sampled_gpu_ms Int64,
    gpu_cost_usd Decimal(18, 9),
    compute_cost_usd Decimal(18, 9),
    network_cost_usd Decimal(18, 9),
    storage_cost_usd Decimal(18, 9),
    license_cost_usd Decimal(18, 9),
    labor_cost_usd Decimal(18, 9),
    overhead_cost_usd Decimal(18, 9),
    lost_cost_usd Decimal(18, 9),
    starting_lost_cost_usd Decimal(18, 9),
    shard UInt16,
    version UInt64,
    INDEX versions version TYPE minmax
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(hour)
ORDER BY (job_id, attempt, hour, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase)
SETTINGS non_replicated_deduplication_window = 1000;

-- Jobs that an earlier version metered and that nothing restates: hours made of their minutes, with version 0, under the last
-- price fields of the attempt, and without time; the meter replaces them when it meters anything of the job again.
INSERT INTO job_hours
(
    hour, job_id, attempt, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase,
    gpu_milli_ms, lost_gpu_milli_ms, unpriced_gpu_milli_ms, sampled_gpu_ms, productive_gpu_ms, tensor_gpu_ms, tensor_sampled_gpu_ms,
    gpu_cost_usd, compute_cost_usd, network_cost_usd, storage_cost_usd, license_cost_usd, labor_cost_usd, overhead_cost_usd,
    lost_cost_usd, starting_lost_cost_usd, shard, version
)
SELECT
    s.hour, s.job_id, s.attempt, a.cloud, a.region, a.zone, a.cluster, a.account, a.instance_type, a.gpu_type, a.purchase,
    sumIf(s.quantity, s.component = 'gpu'),
    sumIf(s.lost_quantity, s.component = 'gpu'),
    sumIf(s.quantity, s.component = 'gpu' AND s.sku = ''),
    1000 * sum(s.sampled_gpu_s),
    sum(s.productive_gpu_ms),
    sum(s.tensor_gpu_ms),
    1000 * sum(s.tensor_sampled_gpu_s),
    sumIf(s.cost_usd, s.component = 'gpu'),
    sumIf(s.cost_usd, s.component = 'compute'),
    sumIf(s.cost_usd, s.component = 'network'),
    sumIf(s.cost_usd, s.component = 'storage'),
    sumIf(s.cost_usd, s.component = 'license'),
    sumIf(s.cost_usd, s.component = 'labor'),
    sumIf(s.cost_usd, s.component = 'overhead'),
    sum(s.lost_cost_usd),
    sumIf(s.lost_cost_usd, s.phase = 'starting'),
    any(s.shard),
    0
FROM
(
    SELECT toStartOfHour(minute) AS hour, job_id, attempt, shard, component, phase, sku, quantity, lost_quantity, cost_usd,
        lost_cost_usd, toInt64(0) AS sampled_gpu_s, toInt64(0) AS productive_gpu_ms, toInt64(0) AS tensor_gpu_ms,
        toInt64(0) AS tensor_sampled_gpu_s
    FROM job_minutes FINAL WHERE quantity != 0
    UNION ALL
    SELECT toStartOfHour(minute), job_id, attempt, shard, '', '', '', 0, 0, toDecimal64(0, 9),
        toDecimal64(0, 9), sampled_gpu_s, productive_gpu_ms, tensor_gpu_ms, tensor_sampled_gpu_s
    FROM job_usage_minutes FINAL
) AS s
LEFT ANY JOIN
(
    SELECT job_id, attempt, cloud, region, zone, cluster, account, instance_type, gpu_type, purchase FROM attempts FINAL
) AS a ON a.job_id = s.job_id AND a.attempt = s.attempt
WHERE s.job_id NOT IN (SELECT job_id FROM job_hours WHERE version != 0)
GROUP BY s.hour, s.job_id, s.attempt, a.cloud, a.region, a.zone, a.cluster, a.account, a.instance_type, a.gpu_type, a.purchase;
