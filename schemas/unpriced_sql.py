"""SQL of what jobs used without a price and without GPUs: hours of instances, CPUs or memory, and watt-hours of energy."""

from __future__ import annotations

from schemas.units import WATT


def unpriced_compute(condition: str) -> str:
    """SQL for the jobs that have any, with the hours; `condition`: which jobs.

    Only jobs are looked at that in some hour held less than a GPU and paid nothing for compute, or reported energy: their
    minutes tell.
    """
    return f"""
SELECT job_id, sum(toInt128(quantity)) / 3600000000 AS unpriced_compute_h
FROM job_minutes FINAL
PREWHERE job_id IN (
    SELECT job_id FROM job_hours FINAL
    WHERE {condition}
        AND ((compute_cost_usd = 0 AND gpu_milli_ms < 1000 * toInt64(wall_clock_ms)) OR instance_type = '{WATT}')
)
WHERE component = 'compute' AND sku = '' GROUP BY job_id"""
