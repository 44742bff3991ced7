-- Our ledger as charges of [FOCUS 1.2](bill_formats.md#our-rows-as-focus), by day, job, attempt, phase, component, SKU and node.
-- Columns that begin with `x_` are ours: `x_CostState` is `reconciled` where a bill of its account has a line of its
-- resource on that day.

SELECT
    c.zone AS AvailabilityZone,
    c.cost_usd AS BilledCost,
    if(c.account = '', 'trainfare', c.account) AS BillingAccountId,
    BillingAccountId AS BillingAccountName,
    'USD' AS BillingCurrency,
    toDateTime(addMonths(toStartOfMonth(c.day), 1), 'UTC') AS BillingPeriodEnd,
    toDateTime(toStartOfMonth(c.day), 'UTC') AS BillingPeriodStart,
    'Usage' AS ChargeCategory,
    CAST(NULL, 'Nullable(String)') AS ChargeClass,
    concat(c.component, ' of job ', c.job_id, if(c.phase = '', '', concat(', ', c.phase))) AS ChargeDescription,
    'Usage-Based' AS ChargeFrequency,
    toDateTime(c.day + 1, 'UTC') AS ChargePeriodEnd,
    toDateTime(c.day, 'UTC') AS ChargePeriodStart,
    c.amount AS ConsumedQuantity,
    c.amount_unit AS ConsumedUnit,
    c.cost_usd AS ContractedCost,
    c.cost_usd AS EffectiveCost,
    CAST(NULL, 'Nullable(String)') AS InvoiceId,
    if(c.cloud = '', 'trainfare', c.cloud) AS InvoiceIssuerName,
    c.cost_usd AS ListCost,
    multiIf(c.purchase = 'spot', 'Dynamic', c.purchase = 'reserved', 'Committed', 'Standard') AS PricingCategory,
    c.amount AS PricingQuantity,
    c.amount_unit AS PricingUnit,
    if(c.cloud = '', 'trainfare', c.cloud) AS ProviderName,
    if(c.cloud = '', 'trainfare', c.cloud) AS PublisherName,
    nullIf(c.region, '') AS RegionId,
    nullIf(c.region, '') AS RegionName,
    c.resource AS ResourceId,
    c.resource AS ResourceName,
    if(c.node = '', 'Job', 'Node') AS ResourceType,
    multiIf(c.component IN ('gpu', 'compute'), 'Compute', c.component = 'network', 'Networking', c.component = 'storage', 'Storage', 'Other')
        AS ServiceCategory,
    concat('trainfare ', c.component) AS ServiceName,
    concat('Other (', ServiceCategory, ')') AS ServiceSubcategory,
    nullIf(CAST(c.sku, 'String'), '') AS SkuId,
    nullIf(concat(c.component, if(c.gpu_type = '' OR c.component != 'gpu', '', concat(' ', c.gpu_type))), '') AS SkuMeter,
    if(c.sku = '', NULL, concat(c.sku, '@', toString(c.price_effective))) AS SkuPriceId,
    nullIf(c.account, '') AS SubAccountId,
    c.tags AS Tags,
    c.job_id AS x_JobId,
    c.attempt AS x_AttemptId,
    c.owner AS x_OwnerId,
    c.team AS x_Team,
    c.project AS x_Project,
    c.phase AS x_Phase,
    c.component AS x_Component,
    c.lost_cost_usd AS x_LostCost,
    if((c.day, multiIf(c.account != '', c.account, n.account != '', n.account, t.account), c.resource) IN (
        SELECT day, account, resource FROM billed_days WHERE lines > 0), 'reconciled', 'provisional') AS x_CostState
FROM
(
    SELECT
        toDate(m.minute) AS day,
        m.job_id AS job_id,
        m.attempt AS attempt,
        m.phase AS phase,
        toString(m.component) AS component,
        m.sku AS sku,
        m.price_effective AS price_effective,
        m.node AS node,
        m.unit AS unit,
        any(multiIf(m.node != '', m.node, j.labels['resource_id'] != '', j.labels['resource_id'], m.job_id)) AS resource,
        any(toString(a.cloud)) AS cloud,
        any(toString(a.region)) AS region,
        any(nullIf(toString(a.zone), '')) AS zone,
        any(toString(a.account)) AS account,
        any(toString(a.purchase)) AS purchase,
        any(toString(a.gpu_type)) AS gpu_type,
        any(j.owner) AS owner,
        any(j.team) AS team,
        any(j.project) AS project,
        any(j.labels) AS tags,
        sum(m.cost_usd) AS cost_usd,
        sum(m.lost_cost_usd) AS lost_cost_usd,
        toDecimal128(sum(toInt128(m.quantity)), 12) AS quantity,
        multiIf(
            m.unit IN ('gpu_milli_ms', 'instance_milli_ms', 'cpu_milli_ms', 'memory_gib_milli_ms'), quantity / 3600000000,
            m.unit = 'ms', quantity / 3600000,
            m.unit = 'mib_ms', quantity / 3686400000,
            quantity) AS amount,
        transform(
            toString(m.unit),
            ['gpu_milli_ms', 'instance_milli_ms', 'cpu_milli_ms', 'memory_gib_milli_ms', 'ms', 'mib_ms', 'bytes', 'requests'],
            ['GPU-Hours', 'Instance-Hours', 'vCPU-Hours', 'GiB-Hours', 'Hours', 'GiB-Hours', 'B', 'Requests'],
            toString(m.unit)) AS amount_unit
    FROM (SELECT * FROM job_minutes FINAL WHERE quantity != 0 AND NOT startsWith(job_id, 'trainfare-canary.')) AS m
    LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = m.job_id
    LEFT ANY JOIN (SELECT * FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
    GROUP BY day, m.job_id, m.attempt, m.phase, m.component, m.sku, m.price_effective, m.node, m.unit
) AS c
LEFT ANY JOIN node_accounts AS n ON n.day = c.day AND n.node = c.node
LEFT ANY JOIN billed_accounts AS t ON t.day = c.day AND t.resource = c.resource
