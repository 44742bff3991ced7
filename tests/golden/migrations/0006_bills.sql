-- Lines of providers' bills (FOCUS), as billed. A line is visible when `bill_loads` has its file and its bill as `loaded`.
CREATE TABLE IF NOT EXISTS bill_lines
(
    load_id String,
    line Int64 CODEC(DoubleDelta, ZSTD),
    invoice_issuer_name LowCardinality(String),
    provider_name LowCardinality(String),
    publisher_name LowCardinality(String),
    invoice_id String,
    billing_account_id String,
    billing_account_name String,
    sub_account_id String,
    sub_account_name String,
    billing_period_start DateTime('UTC'),
    billing_period_end DateTime('UTC'),
    charge_period_start DateTime('UTC'),
    charge_period_end DateTime('UTC'),
    charge_category LowCardinality(String),
    charge_class LowCardinality(String),
    charge_description String,
    charge_frequency LowCardinality(String),
    billing_currency LowCardinality(String),
    billed_cost Decimal(38, 18),
    effective_cost Decimal(38, 18),
    contracted_cost Nullable(Decimal(38, 18)),
    list_cost Decimal(38, 18),
    list_unit_price Nullable(Decimal(38, 18)),
    pricing_category LowCardinality(String),
    pricing_quantity Nullable(Decimal(38, 18)),
    pricing_unit LowCardinality(String),
    consumed_quantity Nullable(Decimal(38, 18)),
    consumed_unit LowCardinality(String),
    commitment_discount_id String,
    commitment_discount_status LowCardinality(String),
    service_category LowCardinality(String),
    service_name LowCardinality(String),
    resource_id String,
    resource_name String,
    resource_type LowCardinality(String),
    region_id LowCardinality(String),
    availability_zone LowCardinality(String),
    sku_id String,
    sku_price_id String,
    tags Map(String, String),
    other Map(String, String),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
PARTITION BY toYYYYMM(billing_period_start)
ORDER BY (load_id, line)
SETTINGS non_replicated_deduplication_window = 1000;

-- One row per file and bill (issuer, account, period). One insert makes a file's lines visible and hides those it replaces.
CREATE TABLE IF NOT EXISTS bill_loads
(
    load_id String,
    invoice_issuer_name String,
    billing_account_id String,
    billing_period_start DateTime('UTC'),
    billing_period_end DateTime('UTC'),
    file String,
    format LowCardinality(String),
    status LowCardinality(String),
    lines Int64,
    correction_lines Int64,
    other_currency_lines Int64,
    billed_usd Decimal(38, 18),
    time DateTime64(3, 'UTC'),
    version UInt64
)
ENGINE = ReplacingMergeTree(version)
ORDER BY (load_id, invoice_issuer_name, billing_account_id, billing_period_start)
SETTINGS non_replicated_deduplication_window = 1000;

-- Whose line it is: a tag of ours before the provider's resource. `copies` counts lines that say the same of the same
-- resource and time, whatever their file; a line of nothing is no copy.
CREATE OR REPLACE VIEW billed_lines AS
SELECT
    l.* EXCEPT (version),
    multiIf(
        l.tags['trainfare_node'] != '', l.tags['trainfare_node'],
        l.tags['trainfare_job'] != '', l.tags['trainfare_job'],
        l.resource_id) AS resource,
    if(l.sub_account_id != '', l.sub_account_id, l.billing_account_id) AS account,
    arrayExists(
        key -> lower(key) IN ('trainfare_node', 'trainfare_job', 'job', 'job_id', 'owner', 'team', 'project'),
        mapKeys(l.tags)) AS is_tagged,
    l.charge_class = 'Correction' AS is_correction,
    if(l.billed_cost = 0, 1, count() OVER (PARTITION BY sipHash128(
        l.billing_account_id, l.sub_account_id, l.resource_id, l.sku_id, l.sku_price_id, l.region_id, l.service_name,
        l.charge_category, l.charge_class, l.charge_description, l.charge_period_start, l.charge_period_end,
        l.billing_currency, l.billed_cost, l.list_cost, l.effective_cost, ifNull(toString(l.pricing_quantity), ''),
        ifNull(toString(l.consumed_quantity), ''), toString(l.tags)))) AS copies,
    uniqExact(l.list_unit_price) OVER (PARTITION BY sipHash128(
        l.billing_account_id, l.sub_account_id, l.sku_id, l.pricing_unit, l.billing_period_start)) AS unit_prices
FROM
(
    SELECT *
    FROM bill_lines FINAL
    WHERE (load_id, invoice_issuer_name, billing_account_id, billing_period_start) IN
    (
        SELECT load_id, invoice_issuer_name, billing_account_id, billing_period_start
        FROM bill_loads FINAL
        WHERE status = 'loaded'
    )
) AS l;

-- Dollars by day: a charge is spread over its period by the second, to the last digit; one of more than 62 days stands on
-- its first day. A correction is no part of the billed amount.
CREATE OR REPLACE VIEW billed_days AS
SELECT
    day,
    account,
    resource,
    sku,
    sumIf(s.billed, NOT s.is_correction) AS billed_usd,
    sumIf(s.billed, s.is_correction) AS correction_usd,
    sumIf(s.listed, NOT s.is_correction) AS list_usd,
    sumIf(s.listed - s.billed, s.is_usage AND NOT s.is_committed) AS discount_usd,
    countIf(NOT s.is_correction) AS lines,
    countIf(s.is_correction) AS correction_lines,
    countIf(s.is_late) AS late_lines,
    countIf(s.is_committed) AS commitment_lines,
    countIf(s.unit_prices > 1 OR s.is_free) AS tier_lines,
    countIf(s.copies > 1) AS copied_lines,
    countIf(NOT s.is_tagged) AS untagged_lines,
    arraySort(groupUniqArrayIf(s.category, s.category != 'usage')) AS other_categories
FROM
(
    SELECT
        toDate(charge_period_start) + toInt32(number) AS day,
        l.account AS account,
        l.resource AS resource,
        l.sku_id AS sku,
        toInt64(toUnixTimestamp(l.charge_period_end)) - toInt64(toUnixTimestamp(l.charge_period_start)) AS length_s,
        -- Seconds of the period before the day begins, and before it ends.
        if(number = 0, 0, number * 86400 - toInt64(toUnixTimestamp(l.charge_period_start)) % 86400) AS from_s,
        if(number + 1 = days, length_s, (number + 1) * 86400 - toInt64(toUnixTimestamp(l.charge_period_start)) % 86400) AS to_s,
        toDecimal128(toDecimal256(l.billed_cost, 18) * to_s / length_s - toDecimal256(l.billed_cost, 18) * from_s / length_s, 18) AS billed,
        toDecimal128(toDecimal256(l.list_cost, 18) * to_s / length_s - toDecimal256(l.list_cost, 18) * from_s / length_s, 18) AS listed,
        l.is_correction AS is_correction,
        l.is_tagged AS is_tagged,
        l.is_correction OR l.charge_period_end <= l.billing_period_start AS is_late,
        l.commitment_discount_id != '' AS is_committed,
        l.charge_category = 'Usage' AND NOT l.is_correction AS is_usage,
        is_usage AND l.list_unit_price = 0 AND l.pricing_quantity > 0 AS is_free,
        lower(toString(l.charge_category)) AS category,
        l.unit_prices AS unit_prices,
        l.copies AS copies,
        toInt64(toDate(l.charge_period_end - 1) - toDate(l.charge_period_start)) + 1 AS span,
        if(span > 62, 1, span) AS days
    FROM billed_lines AS l
    ARRAY JOIN range(toUInt64(days)) AS number
    WHERE l.billing_currency = 'USD'
) AS s
GROUP BY day, account, resource, sku;

-- What a provider could bill of what was metered, by day: a node with events costs what it is paid for, whoever uses it;
-- any other GPU-time, and other components, what the jobs' rows say. Only nodes without GPUs are paid by instance time. `job_minutes` and `busy_minutes` differ where two jobs
-- claim one resource in one minute.
CREATE OR REPLACE VIEW metered_days AS
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
        toDate(minute) AS day,
        '' AS account,
        node AS resource,
        sku,
        sum(cost_usd) AS cost,
        count() AS lines,
        toUInt64(0) AS job_minutes,
        groupBitmapStateIf(toUInt32(0), 0) AS busy
    FROM node_minutes FINAL
    WHERE quantity != 0
    GROUP BY day, node, sku
    UNION ALL
    SELECT
        toDate(m.minute) AS day,
        a.account AS account,
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
            AND NOT (component = 'gpu' AND node IN (SELECT node FROM node_minutes WHERE quantity != 0))
            AND NOT (component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
                AND node IN (SELECT node FROM node_minutes WHERE quantity != 0 AND unit = 'instance_milli_ms'))
    ) AS m
    LEFT ANY JOIN (SELECT job_id, labels FROM jobs FINAL) AS j ON j.job_id = m.job_id
    LEFT ANY JOIN (SELECT job_id, attempt, account FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
    GROUP BY day, account, resource, sku, m.job_id
) AS s
GROUP BY day, account, resource, sku;

-- Both sides by day, account, resource and SKU. What is metered without an account takes that under which its resource was
-- billed most on that day; so does an SKU that the bill of the resource does not have. The variance is to the nano-dollar.
CREATE OR REPLACE VIEW bill_reconciliation AS
SELECT
    day,
    account,
    resource,
    sku,
    sum(s.metered) AS metered_usd,
    sum(s.billed) AS billed_usd,
    sum(s.correction) AS correction_usd,
    sum(s.listed) AS list_usd,
    toDecimal128(roundBankers(billed_usd, 9), 9) - metered_usd AS variance_usd,
    toFloat64(variance_usd) / nullIf(toFloat64(billed_usd), 0) AS variance_ratio,
    sum(s.bill_lines) AS lines,
    sum(s.correction_lines) AS correction_lines,
    multiIf(sum(s.meter_rows) = 0, 'only_billed', lines = 0, 'only_metered', 'matched') AS status,
    if(status = 'only_metered', 'provisional', 'reconciled') AS cost_state,
    -- Each row, and the bill, is rounded to a nano-dollar on its own.
    2000000000 * abs(variance_usd) > toInt64(sum(s.meter_rows)) + 1 AS differs,
    arrayFilter(cause -> cause != '', arrayConcat(
    [
        if(differs AND sum(s.tier_lines) > 0, 'tier', ''),
        if(differs AND sum(s.discount) > 0, 'discount', ''),
        if(sum(s.commitment_lines) > 0, 'commitment', ''),
        if(status = 'only_billed' AND sum(s.untagged_lines) > 0 AND resource != '', 'missing_tag', ''),
        if(status = 'only_billed' AND sum(s.untagged_lines) > 0 AND resource = '', 'unattributed', ''),
        if(sum(s.late_lines) > 0, 'late_line', ''),
        if(sum(s.copied_lines) > 0
            OR (status = 'matched' AND differs AND variance_usd < 0 AND sum(s.job_minutes) > sum(s.busy_minutes)), 'double_count', '')
    ], arrayDistinct(arrayFlatten(groupArray(s.other_categories))))) AS causes
FROM
(
    SELECT
        day, account, resource, sku,
        toDecimal128(0, 9) AS metered, billed_usd AS billed, correction_usd AS correction, list_usd AS listed,
        discount_usd AS discount, lines AS bill_lines, correction_lines, late_lines, commitment_lines, tier_lines,
        copied_lines, untagged_lines, other_categories,
        toUInt64(0) AS meter_rows, toUInt64(0) AS job_minutes, toUInt64(0) AS busy_minutes
    FROM billed_days
    UNION ALL
    SELECT
        m.day AS day,
        if(m.account = '' AND b.resource != '', b.top.1, m.account) AS account,
        m.resource AS resource,
        if(b.resource != '' AND NOT has(b.skus, (account, m.sku)), b.top.2, m.sku) AS sku,
        m.metered_usd, toDecimal128(0, 18), toDecimal128(0, 18), toDecimal128(0, 18),
        toDecimal128(0, 18), 0, 0, 0, 0, 0,
        0, 0, CAST([], 'Array(String)'),
        m.rows, m.job_minutes, m.busy_minutes
    FROM metered_days AS m
    LEFT ANY JOIN
    (
        SELECT
            day,
            resource,
            argMax((account, sku), (t.billed_usd, account, sku)) AS top,
            groupUniqArray((account, sku)) AS skus
        FROM billed_days AS t
        WHERE resource != ''
        GROUP BY day, resource
    ) AS b ON b.day = m.day AND b.resource = m.resource
) AS s
-- Months whose minutes of jobs were dropped would seem to be only billed.
WHERE toYYYYMM(day) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
GROUP BY day, account, resource, sku;

-- Both figures of each day: what the bill has no line for is provisional.
CREATE OR REPLACE VIEW cost_days AS
SELECT
    day,
    sum(r.metered_usd) AS metered_usd,
    sumIf(r.metered_usd, r.cost_state = 'provisional') AS provisional_usd,
    sum(r.billed_usd) AS billed_usd,
    sum(r.correction_usd) AS correction_usd,
    sum(r.variance_usd) AS variance_usd,
    if(sum(r.lines) > 0 AND provisional_usd = 0, 'reconciled', 'provisional') AS cost_state
FROM bill_reconciliation AS r
GROUP BY day;

-- Our rows as charges of FOCUS 1.2: one per day, job, attempt, phase, component, SKU and node.
CREATE OR REPLACE VIEW focus_charges AS
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
    if((c.day, c.resource) IN (SELECT day, resource FROM billed_days WHERE lines > 0), 'reconciled', 'provisional') AS x_CostState
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
) AS c;
