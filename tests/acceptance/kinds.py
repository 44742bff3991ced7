"""Logs of kinds of jobs that run each day and do each time what a rule tells of; the last run does far more of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

HOUR_MS = 3_600_000
MINUTE_MS = 60_000
DAY_MS = 24 * HOUR_MS
BEGIN_MS = 1_780_272_000_000  # 2026-06-01 00:00 UTC
#: Days with usual runs that have a history of too few before them, then one that has enough, then one that is unusual.
USUAL_DAYS = 6
DAYS = USUAL_DAYS + 2

Json = dict[str, Any]
Lines = Iterator[tuple[int, str, Json]]


def traffic_each_day(day: int, at_ms: int) -> Lines:
    """Three hours of preprocessing on CPUs, mostly traffic: $140/h, on the last day three times as much."""
    job = {"job_id": f"prep-{day}", "owner": "ada", "team": "data"}
    yield at_ms, "jobs", {**job, "type": "started", "cpu_count": 16}
    gb = 14_000 if day < DAYS else 42_000
    for minute in range(5, 181, 5):
        amount = gb * 10**9 // 12
        yield (
            at_ms + minute * MINUTE_MS,
            "network",
            {
                "job_id": job["job_id"],
                "path": "internet",
                "direction": "egress",
                "bytes": amount,
                "interval_ms": 5 * MINUTE_MS,
            },
        )
    yield at_ms + 3 * HOUR_MS, "jobs", {**job, "type": "completed"}


def idle_each_day(day: int, at_ms: int) -> Lines:
    """Four hours on 8 GPUs, in which they idle for 70 min; on the last day for three hours."""
    job = {"job_id": f"tune-{day}", "owner": "ada", "team": "data"}
    yield at_ms, "jobs", {**job, "type": "started", "gpu_count": 8, "gpu_type": "H100"}
    idle = range(60, 130) if day < DAYS else range(60, 240)
    for minute in range(240):
        ratio = 0.0 if minute in idle else 0.95
        sample = {
            "job_id": job["job_id"],
            "node": f"n{day}",
            "interval_ms": MINUTE_MS,
            "gpus": [f"g{gpu}" for gpu in range(8)],
            "util_ratio": [ratio] * 8,
            "gpu_type": "H100",
        }
        yield at_ms + (minute + 1) * MINUTE_MS, "gpu", sample
    yield at_ms + 4 * HOUR_MS, "jobs", {**job, "type": "completed"}


def wider_each_day(day: int, at_ms: int) -> Lines:
    """A phase on 16 GPUs, then one of two hours on 40; on the last day on 120."""
    job = {"job_id": f"ppo-{day}", "owner": "ada", "team": "data"}
    yield at_ms, "jobs", {**job, "type": "started", "gpu_count": 16, "gpu_type": "H100"}
    gpus = 40 if day < DAYS else 120
    yield at_ms + 70 * MINUTE_MS, "jobs", {**job, "type": "scaled", "gpu_count": gpus}
    yield at_ms + 190 * MINUTE_MS, "jobs", {**job, "type": "completed"}


#: The last day of a sweep: each day has three jobs, so that two days are a history.
SWEEP_DAYS = 4
TRIALS = 3


def sweep_each_day(day: int, at_ms: int) -> Lines:
    """Three jobs with dear traffic at one time; on the last day with three times as much."""
    for trial in range(TRIALS):
        for time_ms, topic, value in traffic_each_day(DAYS if day == SWEEP_DAYS else 1, at_ms):
            yield time_ms, topic, {**value, "job_id": f"hpo-{day}-{trial}"}


#: Days on which one job grows: the last one by far more, the one before it at another hour, too.
GROWING_DAYS = 8


def grows_each_day(day: int, at_ms: int) -> Lines:
    """One job on 8 GPUs, which has 24 of them for eight hours of each day; on the last one 60."""
    job = {"job_id": "serve", "owner": "ada", "team": "data"}
    if day == 1:
        yield at_ms, "jobs", {**job, "type": "started", "gpu_count": 8, "gpu_type": "H100"}
    gpus = 24 if day < GROWING_DAYS else 60
    yield at_ms + 60 * MINUTE_MS, "jobs", {**job, "type": "scaled", "gpu_count": gpus}
    yield at_ms + 540 * MINUTE_MS, "jobs", {**job, "type": "scaled", "gpu_count": 8}
    if day == GROWING_DAYS - 1:
        yield at_ms + 700 * MINUTE_MS, "jobs", {**job, "type": "scaled", "gpu_count": 24}
        yield at_ms + 760 * MINUTE_MS, "jobs", {**job, "type": "scaled", "gpu_count": 8}
    if day == GROWING_DAYS:
        yield at_ms + 600 * MINUTE_MS, "jobs", {**job, "type": "completed"}


Kind = Callable[[int, int], Lines]
KINDS: dict[str, Kind] = {
    "traffic": traffic_each_day,
    "idle_gpus": idle_each_day,
    "burn": wider_each_day,
}


def write_log(path: Path, kind: Kind, *, days: int = DAYS, begin_ms: int = BEGIN_MS) -> Path:
    """A run each day at 08:20, and prices before them."""
    prices: list[tuple[int, str, Json]] = [
        (begin_ms, "prices", {"sku": sku, "component": component, "usd": usd, "per": per, "effective_ms": 0, **match})
        for sku, component, usd, per, match in (
            ("h100", "gpu", "5", "gpu_hour", {"gpu_type": "H100"}),
            ("cpu", "compute", "0.05", "vcpu_hour", {}),
            ("region", "network", "0.01", "gb", {"path": "internet"}),
        )
    ]  # fmt: skip
    lines = [*prices]
    for day in range(1, days + 1):
        lines += kind(day, begin_ms + day * DAY_MS + 8 * HOUR_MS + 20 * MINUTE_MS)
    lines.sort(key=lambda line: line[0])
    path.write_text(
        "".join(
            json.dumps(
                {"topic": topic, "value": {"id": f"e{number}", "source": "s", "time_ms": at_ms, **value}}
            )
            + "\n"
            for number, (at_ms, topic, value) in enumerate(lines)
        )
    )
    return path
