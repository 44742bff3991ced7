-- Lines of a bill are those of a resource in an account: two accounts may each have a resource of one name. What was metered
-- without an account is the node's, else that under which its resource was billed most on that day; so does `chargeback`.

-- The account of each node and day, as its events last said.
CREATE OR REPLACE VIEW node_accounts AS
SELECT toDate(hour) AS day, node, argMaxIf(toString(h.account), hour, h.account != '') AS account
FROM node_hours AS h FINAL
GROUP BY day, node;

-- The account under which each resource was billed most on a day.
CREATE OR REPLACE VIEW billed_accounts AS
SELECT day, resource, argMax(account, (s.billed, account)) AS account
FROM
(
    SELECT day, account, resource, sum(d.billed_usd + d.correction_usd) AS billed
    FROM billed_days AS d
    WHERE resource != ''
    GROUP BY day, account, resource
) AS s
GROUP BY day, resource;

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
            AND NOT (component = 'gpu' AND node IN (SELECT node FROM node_minutes WHERE quantity != 0))
            AND NOT (component = 'compute' AND unit = 'instance_milli_ms' AND node != ''
                AND node IN (SELECT node FROM node_minutes WHERE quantity != 0 AND unit = 'instance_milli_ms'))
    ) AS m
    LEFT ANY JOIN (SELECT job_id, labels FROM jobs FINAL) AS j ON j.job_id = m.job_id
    LEFT ANY JOIN (SELECT job_id, attempt, account FROM attempts FINAL) AS a ON a.job_id = m.job_id AND a.attempt = m.attempt
    LEFT ANY JOIN node_accounts AS n ON n.day = toDate(m.minute) AND n.node = m.node
    GROUP BY day, account, resource, sku, m.job_id
) AS s
GROUP BY day, account, resource, sku;

-- Both sides by day, account, resource and SKU. What is metered without an account takes that under which its resource was
-- billed most; an SKU that the bill of the resource does not have, that which was billed most. The variance is to the nano-dollar.
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
        m.account AS account,
        m.resource AS resource,
        if(k.resource != '' AND NOT has(k.skus, m.sku), k.top_sku, m.sku) AS sku,
        m.metered_usd, toDecimal128(0, 18), toDecimal128(0, 18), toDecimal128(0, 18),
        toDecimal128(0, 18), 0, 0, 0, 0, 0,
        0, 0, CAST([], 'Array(String)'),
        m.rows, m.job_minutes, m.busy_minutes
    FROM
    (
        SELECT p.* EXCEPT (account), if(p.account = '', t.account, p.account) AS account
        FROM metered_days AS p
        LEFT ANY JOIN billed_accounts AS t ON t.day = p.day AND t.resource = p.resource
    ) AS m
    LEFT ANY JOIN
    (
        SELECT day, account, resource, argMax(sku, (d.billed_usd, sku)) AS top_sku, groupUniqArray(sku) AS skus
        FROM billed_days AS d
        WHERE resource != ''
        GROUP BY day, account, resource
    ) AS k ON k.day = m.day AND k.account = m.account AND k.resource = m.resource
) AS s
-- Months whose minutes of jobs were dropped would seem to be only billed.
WHERE toYYYYMM(day) >= (SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')
GROUP BY day, account, resource, sku;

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
LEFT ANY JOIN billed_accounts AS t ON t.day = c.day AND t.resource = c.resource;

-- M3 per day, as before, beside what bills say of the same nodes in their accounts.
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
    SELECT
        d.day AS day,
        sum(d.billed_usd + d.correction_usd) AS billed,
        sum(d.lines + d.correction_lines) AS lines
    FROM billed_days AS d
    INNER JOIN
    (
        SELECT toDate(hour) AS day, node, groupUniqArrayIf(toString(h.account), h.account != '') AS accounts
        FROM node_hours AS h FINAL
        WHERE paid_ms != 0
        GROUP BY day, node
    ) AS o ON o.day = d.day AND o.node = d.resource
    LEFT ANY JOIN billed_accounts AS t ON t.day = d.day AND t.resource = d.resource
    WHERE has(o.accounts, d.account) OR (empty(o.accounts) AND d.account = t.account)
    GROUP BY day
) AS n ON n.day = s.day;
