-- GPU and overhead cost per GPU-hour.

SELECT
    level,
    name,
    gpu_cost_usd + overhead_cost_usd AS gpu_and_overhead_cost_usd,
    gpu_h,
    toFloat64(gpu_and_overhead_cost_usd) / nullIf(gpu_h, 0) AS usd_per_gpu_hour
FROM level_costs
