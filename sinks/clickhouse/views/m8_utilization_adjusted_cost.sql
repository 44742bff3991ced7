-- Cost per productive GPU-hour: weighted by utilisation, by the tensor cores' activity, and (goodput) of paid GPU-time that
-- was not lost. What was not sampled is unknown, not unproductive: null where nothing was, and elsewhere the rates take the
-- productive share of the sampled GPU-time for all of it; `coverage_ratio` says how much was sampled.

SELECT
    level,
    name,
    c.cost_usd AS cost_usd,
    if(c.sampled_gpu_h = 0, NULL, c.productive_gpu_h) AS productive_gpu_h,
    toFloat64(c.cost_usd) / nullIf(c.gpu_h * (c.productive_gpu_h / nullIf(c.sampled_gpu_h, 0)), 0) AS usd_per_productive_gpu_hour,
    if(c.tensor_sampled_gpu_h = 0, NULL, c.tensor_gpu_h) AS tensor_gpu_h,
    toFloat64(c.cost_usd) / nullIf(c.gpu_h * (c.tensor_gpu_h / nullIf(c.tensor_sampled_gpu_h, 0)), 0) AS usd_per_tensor_gpu_hour,
    c.gpu_h - c.lost_gpu_h AS goodput_gpu_h,
    toFloat64(c.cost_usd) / nullIf(goodput_gpu_h, 0) AS usd_per_goodput_gpu_hour,
    c.gpu_h AS gpu_h,
    c.sampled_gpu_h AS sampled_gpu_h,
    c.sampled_gpu_h / nullIf(c.gpu_h, 0) AS coverage_ratio,
    c.productive_gpu_h / nullIf(c.sampled_gpu_h, 0) AS productive_ratio,
    goodput_gpu_h / nullIf(c.gpu_h, 0) AS goodput_ratio
FROM level_costs AS c
