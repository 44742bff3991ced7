-- The lines of `bill_lines` that count, with the [keys of the join](bills.md#how-the-two-sides-meet): `resource` and
-- `account`. `is_tagged`: a tag says whose it is. `copies`: how many lines say the same of the same resource and time.
-- `unit_prices`: how many list prices its SKU has in the account and billing period. `billed_usd`, `effective_usd` and
-- `list_usd` are its costs [in dollars](currencies.md): of the rate of the invoice, else of the day `rate_day`; null where
-- there is none.

-- A tag of ours comes before the provider's resource. A line of nothing is no copy. A cost in another currency is a fraction
-- of whole numbers, rounded once, half to even, to a nano-dollar.

SELECT
    l.* EXCEPT (version, rated_day, numerator, denominator, costs, converted),
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
        l.billing_account_id, l.sub_account_id, l.sku_id, l.pricing_unit, l.billing_period_start)) AS unit_prices,
    if(l.numerator > 0 AND isNull(l.units_per_usd) AND l.billing_currency != 'USD', toNullable(l.rated_day), NULL) AS rate_day,
    if(l.billing_currency = 'USD', toNullable(l.billed_cost), l.converted[1]) AS billed_usd,
    if(l.billing_currency = 'USD', toNullable(l.effective_cost), l.converted[2]) AS effective_usd,
    if(l.billing_currency = 'USD', toNullable(l.list_cost), l.converted[3]) AS list_usd
FROM
(
    SELECT
        b.*,
        toDate(r.rated) AS rated_day,
        -- In units of the last of 18 decimals. A rate of a day holds for a week after it, for banks rest.
        multiIf(
            b.units_per_usd > 0, toInt256(1000000000000000000),
            r.dollars > 0 AND toDate(b.charge_period_start) - rated_day <= 7, toInt256(toDecimal256(r.dollars, 18) * 1000000000000000000),
            toInt256(0)) AS numerator,
        greatest(toInt256(1), toInt256(toDecimal256(if(b.units_per_usd > 0, assumeNotNull(b.units_per_usd), r.units), 18)
            * 1000000000000000000)) * 1000000000 AS denominator,
        -- No amount has as many dollars as a number of a bill may not have: 10^15.
        arrayMap(
            (nano, cost) -> if(
                numerator > 0 AND nano < toInt256('1000000000000000000000000'),
                toNullable(toDecimal128(
                    toDecimal256(if(nano < toInt256('1000000000000000000000000'), nano, toInt256(0)), 18)
                        / if(cost < 0, -1000000000, 1000000000), 18)),
                NULL),
            arrayMap(
                amount -> intDiv(amount * numerator, denominator)
                    + (2 * ((amount * numerator) % denominator) + intDiv(amount * numerator, denominator) % 2 > denominator),
                arrayMap(cost -> abs(toInt256(toDecimal256(cost, 18) * 1000000000000000000)), costs)),
            if(b.billing_currency = 'USD', [], [b.billed_cost, b.effective_cost, b.list_cost]) AS costs) AS converted
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
    ) AS b
    LEFT ASOF JOIN (SELECT currency, day AS rated, units, dollars FROM fx_rates FINAL) AS r
        ON b.billing_currency = r.currency AND b.charge_period_start >= r.rated
) AS l
