-- [Both sides](bills.md#how-the-two-sides-meet) by day, account, resource and SKU. `variance_usd` is billed less metered,
-- to the nano-dollar, without corrections; it `differs` where rounding does not explain it. `status` is `matched`,
-- `only_billed` or `only_metered`; [`causes`](bills.md#causes).

-- What is metered without an account takes that under which its resource was billed most; an SKU that the bill of the
-- resource does not have, that which was billed most.

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
GROUP BY day, account, resource, sku
