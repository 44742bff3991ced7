-- Both figures of a day. It is `reconciled` when all that was metered on it stands on a bill, else `provisional`;
-- `provisional_usd` is what does not.

SELECT
    day,
    sum(r.metered_usd) AS metered_usd,
    sumIf(r.metered_usd, r.cost_state = 'provisional') AS provisional_usd,
    sum(r.billed_usd) AS billed_usd,
    sum(r.correction_usd) AS correction_usd,
    sum(r.variance_usd) AS variance_usd,
    if(sum(r.lines) > 0 AND provisional_usd = 0, 'reconciled', 'provisional') AS cost_state
FROM bill_reconciliation AS r
GROUP BY day
