-- `ratio` is the share of the cost that was lost, whether anybody tried again or not; `retry_ratio` is the retry overhead
-- in it: the part that [retries](cost_metrics.md#lost-work) caused. [What the words
-- mean](glossary.md#time-and-cost-that-jobs-did-not-use).

SELECT
    level,
    name,
    lost_cost_usd,
    cost_usd,
    toFloat64(lost_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS ratio,
    retry_cost_usd,
    toFloat64(retry_cost_usd) / nullIf(toFloat64(cost_usd), 0) AS retry_ratio
FROM level_costs
