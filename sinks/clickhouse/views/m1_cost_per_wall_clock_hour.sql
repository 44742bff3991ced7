-- Cost of an hour of training: all cost over all hours that jobs ran, in full, without licence and labour (`infra_...`), and
-- of that what [labels](cost_model.md#prices-by-label) add (`compliance_...`).
-- What jobs cost that never ran is in it, and named: `untimed_cost_usd`. [By period and other
-- levels](cost_metrics.md#metrics): `trainfare costs --metric m1`.

SELECT
    level,
    name,
    cost_usd,
    infra_cost_usd,
    compliance_cost_usd,
    wall_clock_h,
    toFloat64(cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour,
    toFloat64(infra_cost_usd) / nullIf(wall_clock_h, 0) AS infra_usd_per_hour,
    toFloat64(compliance_cost_usd) / nullIf(wall_clock_h, 0) AS compliance_usd_per_hour,
    untimed_cost_usd
FROM level_costs
