"""Commands and views say the same of random hours, of hours in which nothing was paid, too."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ATTEMPTS, JOB_HOURS, JOBS
from sinks.clickhouse import ClickHouseStore
from streams.costs.answer import cost_steps
from streams.costs.day_parts import answered
from streams.costs.request import request_of
from tests.sinks.rows import dicts, instant, rows
from tests.sinks.stores import embedded

FIRST = instant("2026-03-01 00:00")
HOUR_MS = 3_600_000
LEVELS = ("job", "owner", "team", "project", "experiment", "cluster", "region", "purchase")
VIEWS = {
    "m1": ("m1_cost_per_wall_clock_hour", ("cost_usd", "wall_clock_h", "usd_per_hour", "infra_usd_per_hour", "compliance_usd_per_hour")),
    "m2": ("m2_cost_per_gpu_hour", ("gpu_and_overhead_cost_usd", "gpu_h", "usd_per_gpu_hour")),
    "m5": ("m5_retry_overhead", ("lost_cost_usd", "ratio", "retry_cost_usd", "retry_ratio")),
    "m8": (
        "m8_utilization_adjusted_cost",
        (
            "gpu_h", "sampled_gpu_h", "coverage_ratio", "productive_gpu_h", "productive_ratio", "tensor_gpu_h",
            "usd_per_productive_gpu_hour", "usd_per_tensor_gpu_hour", "goodput_gpu_h", "usd_per_goodput_gpu_hour",
        ),
    ),
    "m9": ("m9_cost_per_experiment", ("jobs", "successful_jobs", "usd_per_job", "usd_per_successful_job")),
    "m10": ("m10_cost_variance", ("hours", "mean_usd_per_hour", "stddev_usd_per_hour", "variation")),
}  # fmt: skip


def hour_of(rng: random.Random, job: str, attempt: int, clock: int) -> dict[str, Any]:
    """An hour: paid, or only waited, sampled, or billed for traffic."""
    kind = rng.choice(("paid", "paid", "paid", "sampled", "traffic", "queued"))
    found: dict[str, Any] = {
        "hour": FIRST + timedelta(hours=clock), "job_id": job, "attempt": attempt,
        "cluster": rng.choice("ab"), "region": "eu-1", "purchase": rng.choice(("spot", "on_demand")),
    }  # fmt: skip
    if kind == "queued":
        return found | {"queued_ms": rng.randrange(HOUR_MS)}
    if kind == "traffic":
        return found | {"network_cost_usd": Decimal(rng.randrange(1, 10**10)).scaleb(-9)}
    sampled_ms = rng.randrange(1, HOUR_MS)
    found |= {
        "sampled_gpu_ms": sampled_ms, "productive_gpu_ms": rng.randrange(sampled_ms),
        "tensor_sampled_gpu_ms": sampled_ms, "tensor_gpu_ms": rng.randrange(sampled_ms),
    }  # fmt: skip
    if kind == "sampled":
        return found
    lost = rng.randrange(10**10)
    return found | {
        "wall_clock_ms": rng.randrange(1, HOUR_MS), "gpu_milli_ms": rng.randrange(1, 8000 * HOUR_MS),
        "gpu_cost_usd": Decimal(rng.randrange(10**10, 10**11)).scaleb(-9), "overhead_cost_usd": Decimal("0.1"), "compliance_cost_usd": Decimal("0.000000007"),
        "license_cost_usd": Decimal("0.333333333"), "lost_cost_usd": Decimal(lost).scaleb(-9),
        "starting_lost_cost_usd": Decimal(rng.randrange(lost + 1)).scaleb(-9),
    }  # fmt: skip


def random_hours(store: ClickHouseStore) -> None:
    rng = random.Random(11)
    jobs = [f"job-{number}" for number in range(60)]
    attempts = [(job, attempt) for job in jobs for attempt in range(1, rng.randint(1, 3) + 1)]
    hours: dict[Any, dict[str, Any]] = {}
    for job, attempt in attempts:
        for _ in range(rng.randint(0, 12)):
            made = hour_of(rng, job, attempt, rng.randrange(72))
            hours[tuple(made[name] for name in ("hour", "job_id", "attempt", "cluster", "purchase"))] = made
    store.insert(JOB_HOURS, rows(JOB_HOURS, *hours.values()), "hours")
    names = [
        {"job_id": job, "team": rng.choice("xyz"), "owner": rng.choice("abcd"), "project": "p", "experiment": job[-1],
         "state": rng.choice(("completed", "failed"))}
        for job in jobs
    ]  # fmt: skip
    store.insert(JOBS, rows(JOBS, *names), "jobs")
    states = ("completed", "failed", "preempted", "cancelled", "running")
    ends = [{"job_id": job, "attempt": attempt, "state": rng.choice(states)} for job, attempt in attempts]
    store.insert(ATTEMPTS, rows(ATTEMPTS, *ends), "attempts")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("views") / "meter") as opened:
        random_hours(opened)
        yield opened


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("metric", VIEWS)
def test_the_command_and_the_view_agree(store: ClickHouseStore, metric: str, level: str) -> None:
    view, columns = VIEWS[metric]
    request = request_of({"metric": [metric], "by": [level]})
    asked = {each[level]: each for each in answered(cost_steps(request), store.ask).rows}
    found = {each["name"]: each for each in dicts(store, f"SELECT * FROM {view} WHERE level = '{level}'")}
    assert len(asked) > 1 or level in ("project", "region")
    for name, cell in asked.items():
        if metric == "m10" and not cell["hours"]:
            assert name not in found
            continue
        for column in columns:
            here, there = (
                None if each[column] is None else float(each[column]) for each in (cell, found[name])
            )
            wanted = None if there is None else pytest.approx(there, rel=1e-9, abs=1e-9)
            assert here == wanted, (name, column)
    sampled = float(dicts(store, "SELECT sum(sampled_gpu_ms) / 3600000 AS h FROM job_hours FINAL")[0]["h"])
    if metric == "m8":
        assert sum(cell["sampled_gpu_h"] for cell in asked.values()) == pytest.approx(sampled)
