"""Hours of jobs are rounded, as `trainfare explain` rounds them, and not cut."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from schemas.tables import JOB_HOURS, JOBS
from tests.cli.command import trainfare
from tests.sinks.rows import rows
from tests.sinks.stores import embedded


def test_hours_are_rounded_half_up(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        # 0.06793 h, and 0.16694 GPU-hours.
        store.insert(JOBS, rows(JOBS, {"job_id": "a", "wall_clock_ms": 244_548}), "jobs")
        hour = {"job_id": "a", "gpu_milli_ms": 600_984_000, "gpu_cost_usd": Decimal("0.01725")}
        store.insert(JOB_HOURS, rows(JOB_HOURS, hour), "hours")
    head, row = (line.split() for line in trainfare("jobs", "--data", tmp_path).out.splitlines())
    shown = dict(zip(reversed(head), reversed(row), strict=False))
    assert (shown["wall_clock_h"], shown["gpu_h"], shown["cost_usd"]) == ("0.068", "0.167", "0.0173")
