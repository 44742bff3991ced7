-- What [commitments](commitments.md) cost by hour, of bills and of a file: `used_usd` of it was used, and `unused_usd` is a
-- cost that `team` bears, who owns the commitment; empty: nobody is named. `purchase_usd` is cash that a bill has, at the hour in
-- which its charge period begins, and no part of `cost_usd`. `source` is `bill` where a bill has lines of the commitment in
-- that hour, else `file`: a bill goes before what a file says.

-- A charge is spread over its period by the second, exactly; one of more than 62 days stands in its first hour. Usage that does
-- not say whether it is used is.

SELECT
    b.hour AS hour,
    b.commitment_id AS commitment_id,
    if(f.kind != '', toString(f.kind), b.kind) AS kind,
    b.provider AS provider,
    multiIf(f.team != '', f.team, b.team) AS team,
    'bill' AS source,
    b.used + b.unused AS cost_usd,
    b.used AS used_usd,
    b.unused AS unused_usd,
    b.purchase AS purchase_usd
FROM
(
    SELECT
        toStartOfHour(charge_period_start) + toIntervalHour(number) AS hour,
        commitment_id,
        any(type) AS kind,
        any(provider_name) AS provider,
        max(owner) AS team,
        sumIf(spread, is_usage AND NOT is_unused) AS used,
        sumIf(spread, is_usage AND is_unused) AS unused,
        sumIf(assumeNotNull(billed_usd), number = 0 AND is_purchase) AS purchase
    FROM
    (
        SELECT
            l.charge_period_start AS charge_period_start,
            l.commitment_discount_id AS commitment_id,
            l.other['CommitmentDiscountType'] AS type,
            l.provider_name AS provider_name,
            if(l.tags['team'] != '', l.tags['team'], l.tags['Team']) AS owner,
            lower(l.charge_category) = 'usage' AS is_usage,
            lower(l.charge_category) = 'purchase' AS is_purchase,
            lower(l.commitment_discount_status) = 'unused' AS is_unused,
            l.billed_usd AS billed_usd,
            assumeNotNull(l.effective_usd) AS usd,
            toInt64(toUnixTimestamp(l.charge_period_end)) - toInt64(toUnixTimestamp(l.charge_period_start)) AS length_s,
            toInt64(toUnixTimestamp(l.charge_period_start)) % 3600 AS late_s,
            intDiv(late_s + length_s + 3599, 3600) AS span,
            if(span > 1488 OR is_purchase, 1, span) AS hours,
            number,
            if(number = 0, 0, number * 3600 - late_s) AS from_s,
            if(number + 1 = hours, length_s, (number + 1) * 3600 - late_s) AS to_s,
            toDecimal128(toDecimal256(usd, 18) * to_s / length_s - toDecimal256(usd, 18) * from_s / length_s, 18) AS spread
        FROM billed_lines AS l
        ARRAY JOIN range(toUInt64(hours)) AS number
        WHERE l.commitment_discount_id != '' AND isNotNull(l.effective_usd) AND isNotNull(l.billed_usd)
            AND (is_usage OR is_purchase)
    )
    GROUP BY hour, commitment_id
) AS b
LEFT ANY JOIN (SELECT commitment_id, kind, team FROM commitments FINAL WHERE is_removed = 0) AS f ON f.commitment_id = b.commitment_id
UNION ALL
SELECT hour, commitment_id, kind, provider, team, 'file', toDecimal128(cost_usd, 18), toDecimal128(used_usd, 18), toDecimal128(unused_usd, 18), toDecimal128(0, 18)
FROM commitment_use
WHERE (commitment_id, hour) NOT IN
(
    SELECT l.commitment_discount_id, toStartOfHour(l.charge_period_start) + toIntervalHour(number)
    FROM billed_lines AS l
    ARRAY JOIN range(toUInt64(least(1488, greatest(1, dateDiff('hour', l.charge_period_start, l.charge_period_end))))) AS number
    WHERE l.commitment_discount_id != '' AND l.charge_category = 'Usage' AND isNotNull(l.effective_usd)
)
