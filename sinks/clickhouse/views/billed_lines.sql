-- The lines of `bill_lines` that count, with the [keys of the join](bills.md#how-the-two-sides-meet): `resource` and
-- `account`. `is_tagged`: a tag says whose it is. `copies`: how many lines say the same of the same resource and time.
-- `unit_prices`: how many list prices its SKU has in the account and billing period.

-- A tag of ours comes before the provider's resource. A line of nothing is no copy.

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
) AS l
