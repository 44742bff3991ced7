"""M10 of many jobs and hours, within a part of the memory that a query may take."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa

from schemas.tables import JOB_HOURS, JOBS, SCHEMAS
from tests.sinks.rows import instant, row, rows
from tests.sinks.stores import embedded

FIRST = instant("2026-03-01 00:00")
HOUR_MS = 3_600_000


def test_m10_of_5000_jobs_for_20_hours_needs_less_than_half_of_what_a_query_may_take(
    tmp_path: Path,
) -> None:
    jobs, count = 5_000, 20
    with embedded(tmp_path / "meter") as opened:
        names = [f"training-job-{number:032}" for number in range(jobs)]
        usual = row(JOB_HOURS, {"wall_clock_ms": HOUR_MS, "gpu_cost_usd": Decimal("8.12"), "cluster": "a"})
        columns = {
            name: pa.array([value] * (jobs * count), SCHEMAS[JOB_HOURS].field(name).type)
            for name, value in usual.items()
        }
        columns["job_id"] = pa.array([name for name in names for _ in range(count)])
        begin_s = int(FIRST.timestamp())
        columns["hour"] = pa.array(
            [begin_s + 3600 * (at + number % 400) for number in range(jobs) for at in range(count)],
            pa.int64(),
        ).cast(SCHEMAS[JOB_HOURS].field("hour").type)
        opened.insert(JOB_HOURS, pa.table(columns).cast(SCHEMAS[JOB_HOURS]), "hours")
        known = [{"job_id": name, "owner": name, "experiment": name, "team": name[-2:]} for name in names]
        opened.insert(JOBS, rows(JOBS, *known), "jobs")
        sql = "SELECT level, count() AS names, sum(v.hours) AS hours, max(v.stddev_usd_per_hour) AS spread FROM m10_cost_variance AS v GROUP BY level"
        found = opened.query(f"{sql} SETTINGS max_memory_usage = {64 * 2**20}, max_threads = 1").to_pylist()
    by_level = {each["level"]: (each["names"], each["hours"]) for each in found}
    assert by_level["job"] == by_level["owner"] == by_level["experiment"] == (jobs, jobs * count)
    assert by_level["cluster"] == (1, 419)
    assert max(each["spread"] for each in found) < 1e-9
