-- Dollars of `billed_lines` by day: a charge is spread over its period by the second, exactly; one of more than 62 days
-- stands on its first day. Corrections stand in `correction_usd` alone. `discount_usd` is list less billed of usage without
-- a commitment. The other columns count lines for the causes.

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
        toDecimal128(toDecimal256(assumeNotNull(l.billed_usd), 18) * to_s / length_s - toDecimal256(assumeNotNull(l.billed_usd), 18) * from_s / length_s, 18) AS billed,
        toDecimal128(toDecimal256(assumeNotNull(l.list_usd), 18) * to_s / length_s - toDecimal256(assumeNotNull(l.list_usd), 18) * from_s / length_s, 18) AS listed,
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
    WHERE isNotNull(l.billed_usd)
) AS s
GROUP BY day, account, resource, sku
