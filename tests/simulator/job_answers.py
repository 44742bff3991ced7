"""Answers of the simulated store to the hourly rules about jobs: rows and sums, in plain Python."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from schemas.tables import ALERTS, ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS
from schemas.units import COMPONENTS
from tests.oracle.model import DAY_MS, HOUR_MS, MINUTE_MS
from tests.simulator.shelf_rows import Bound, Row, read, usd
from tests.simulator.store import Shelf

_TRAFFIC = ("network", "storage")
_COSTS = tuple(f"{component}_cost_usd" for component in COMPONENTS)
_RATE_COSTS = tuple(f"{component}_cost_usd" for component in COMPONENTS if component not in _TRAFFIC)
_BROKEN = ("failed", "preempted", "superseded")
_NAMES = ("owner", "team", "project", "experiment")
_PLACES = ("cluster", "region", "cloud", "instance_type", "gpu_type", "purchase")
_OVERSIZED_BACK_MS = 30 * 24 * HOUR_MS


def _jobs(shelf: Shelf) -> dict[str, Row]:
    names = (
        "job_id",
        *_NAMES,
        "state",
        "started",
        "ended",
        "wall_clock_ms",
        "gpu_count",
        "declared_usd_per_hour",
        *_PLACES,
    )
    return {row[0]: dict(zip(names, row, strict=True)) for row in read(shelf, JOBS, *names)}


def retry_overhead(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Hours in which a job that was paid had lost much by then, and no retry loop stood."""
    jobs, ends = _jobs(shelf), dict[tuple[str, int], tuple[str, int | None]]()
    firsts: dict[str, int] = {}
    for job_id, attempt, state, ended in read(shelf, ATTEMPTS, "job_id", "attempt", "state", "ended"):
        ends[job_id, attempt] = state, ended
        firsts[job_id] = min(attempt, firsts.get(job_id, attempt))
    loops = _retry_loops(shelf)
    tried: dict[str, list[tuple[int, int, int, int, int]]] = {}
    names = ("job_id", "attempt", "hour", "lost_cost_usd", "starting_lost_cost_usd", *_COSTS)
    for job_id, attempt, hour_s, lost, start, *costs in read(shelf, JOB_HOURS, *names):
        if hour_s * 1000 < bound["to_ms"]:
            is_retry = attempt > firsts.get(job_id, attempt)
            tried.setdefault(job_id, []).append((attempt, hour_s * 1000, sum(costs), lost, start * is_retry))
    for at_ms in range(bound["from_ms"] + HOUR_MS, bound["to_ms"] + 1, HOUR_MS):
        for job_id, hours in sorted(tried.items()):
            if sum(cost for _, hour, cost, *_ in hours if hour == at_ms - HOUR_MS) <= 0:
                continue
            spent = sum(cost for _, hour, cost, *_ in hours if hour < at_ms)
            lost, broken = 0, 0
            for attempt in {each[0] for each in hours}:
                mine = [each for each in hours if each[0] == attempt]
                state, ended = ends.get((job_id, attempt), ("", None))
                whole = sum(each[3] for each in mine)
                is_over = state in _BROKEN and ended is not None and ended < at_ms and whole > 0
                if is_over and _is_named(loops.get(job_id, ()), ended or 0, at_ms):
                    continue
                lost += sum(each[4] for each in mine if each[1] < at_ms)
                if is_over:
                    lost, broken = lost + whole - sum(each[4] for each in mine), broken + 1
            is_much = usd(lost) >= bound["least_usd"] and float(usd(lost)) > bound["lost_ratio"] * float(
                usd(spent)
            )
            if broken >= bound["attempts"] and is_much and not stood(shelf, "retry_loop", job_id, at_ms):
                job = jobs.get(job_id, {})
                named = {name: job.get(name, "") for name in ("owner", "team", "project")}
                sums = {"usd": usd(spent), "lost_usd": usd(lost), "broken": broken}
                yield {"at_ms": at_ms, "job_id": job_id, **named, **sums}


def quiet_hours(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Hours in which jobs cost something or ran, ends of their attempts, and when rules fired that name the same."""
    since_ms, to_ms = bound["from_ms"] - 24 * HOUR_MS, bound["to_ms"]
    ends: dict[str, list[tuple[int, bool]]] = {}
    for job_id, state, ended in read(shelf, ATTEMPTS, "job_id", "state", "ended"):
        if ended is not None and since_ms - HOUR_MS <= ended < to_ms:
            ends.setdefault(job_id, []).append((ended, state in ("completed", "cancelled")))
    named: dict[str, list[tuple[str, int, int]]] = {}
    for rule, job_id, started, resolved in read(shelf, ALERTS, "rule", "subject_name", "started", "resolved"):
        until_ms = to_ms + DAY_MS if resolved is None else resolved
        if rule in bound["rules"] and started < to_ms and until_ms > bound["from_ms"]:
            named.setdefault(job_id, []).append((rule, started, until_ms))
    for job_id, hours in sorted(_walls(shelf, bound).items()):
        inside = {hour_ms + HOUR_MS: both for hour_ms, both in sorted(hours.items()) if hour_ms >= since_ms}
        if job_id in bound["jobs"] and inside:
            of_job = named.get(job_id, [])
            yield {
                "job_id": job_id,
                "with_cost": [at_ms for at_ms, (_, cost) in inside.items() if cost > 0],
                "with_run_time": [at_ms for at_ms, (wall, _) in inside.items() if wall > 0],
                "ends": sorted(at_ms for at_ms, _ in ends.get(job_id, ())),
                "done": sorted(at_ms for at_ms, is_done in ends.get(job_id, ()) if is_done),
                "rules": [rule for rule, *_ in of_job],
                "since": [since for _, since, _ in of_job],
                "until": [until for *_, until in of_job],
            }


def _retry_loops(shelf: Shelf) -> dict[str, list[tuple[int, int | None]]]:
    found: dict[str, list[tuple[int, int | None]]] = {}
    for rule, job_id, started, resolved in read(shelf, ALERTS, "rule", "subject_name", "started", "resolved"):
        if rule == "retry_loop":
            found.setdefault(job_id, []).append((started, resolved))
    return found


def _is_named(loops: Iterable[tuple[int, int | None]], ended: int, at_ms: int) -> bool:
    """Whether an alert about a retry loop names an attempt that broke off then."""
    return any(
        started < at_ms and ended > started - HOUR_MS and (resolved is None or ended <= resolved)
        for started, resolved in loops
    )


def stood(shelf: Shelf, rule: str, job_id: str, at_ms: int) -> bool:
    """Whether a rule was firing for a job in the hour that ends then."""
    names = ("rule", "subject_name", "started", "resolved")
    return any(
        (of_rule, name) == (rule, job_id)
        and started < at_ms
        and (resolved is None or resolved > at_ms - HOUR_MS)
        for of_rule, name, started, resolved in read(shelf, ALERTS, *names)
    )


def _began(shelf: Shelf, bound: Bound) -> dict[str, Row]:
    return {
        job_id: job
        for job_id, job in sorted(_jobs(shelf).items())
        if job["started"] is not None and bound["from_ms"] <= job["started"] < bound["to_ms"]
    }


def oversized_began(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What jobs that began cost in the five minutes after their first one."""
    began = _began(shelf, bound)
    spent: dict[str, int] = {}
    names = ("job_id", "minute", "component", "cost_usd")
    for job_id, minute_s, component, cost in read(shelf, JOB_MINUTES, *names):
        if job_id in began and component not in _TRAFFIC:
            after = minute_s // 60 - began[job_id]["started"] // MINUTE_MS
            spent[job_id] = spent.get(job_id, 0) + cost * (1 <= after <= 5)
    for job_id, job in began.items():
        if spent.get(job_id, 0) > 0:
            more = {name: job[name] for name in _PLACES} | {"declared": usd(job["declared_usd_per_hour"])}
            row = {"job_id": job_id, **_named(job), **more}
            yield {**row, "started_ms": job["started"], "nano": spent[job_id]}


def oversized_before(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What jobs of the same teams cost in their first hours."""
    teams = {job["team"] for job in _began(shelf, bound).values()}
    jobs = {
        job_id: job
        for job_id, job in _jobs(shelf).items()
        if job["team"] in teams
        and job["started"] is not None
        and bound["from_ms"] - _OVERSIZED_BACK_MS - HOUR_MS <= job["started"] < bound["to_ms"]
    }
    sums: dict[str, list[int]] = {}
    names = ("job_id", "hour", "wall_clock_ms", *_RATE_COSTS)
    for job_id, hour_s, wall_ms, *costs in read(shelf, JOB_HOURS, *names):
        if job_id in jobs and hour_s * 1000 == jobs[job_id]["started"] // HOUR_MS * HOUR_MS:
            both = sums.setdefault(job_id, [0, 0])
            both[:] = both[0] + sum(costs), both[1] + wall_ms
    for job_id, (nano, wall_ms) in sorted(sums.items()):
        if nano > 0 and wall_ms > 0:
            job = jobs[job_id]
            names_of = {name: job[name] for name in ("team", "experiment")}
            yield {"job_id": job_id, **names_of, "started_ms": job["started"], "nano": nano, "wall": wall_ms}


def oversized_paid(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """The ends of hours in which jobs were paid."""
    found = {
        (job_id, hour_s * 1000 + HOUR_MS)
        for job_id, hour_s, wall_ms in read(shelf, JOB_HOURS, "job_id", "hour", "wall_clock_ms")
        if job_id in bound["jobs"] and wall_ms > 0 and bound["from_ms"] <= hour_s * 1000 < bound["to_ms"]
    }
    yield from ({"job_id": job_id, "at_ms": at_ms} for job_id, at_ms in sorted(found))


def completed(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """How long completed jobs ran."""
    for job_id, job in sorted(_jobs(shelf).items()):
        ended_ms = job["ended"]
        is_done = job["state"] == "completed" and job["wall_clock_ms"] > 0 and ended_ms is not None
        if is_done and bound["from_ms"] - _OVERSIZED_BACK_MS <= ended_ms < bound["to_ms"]:
            named = {name: job[name] for name in ("team", "experiment")}
            yield {
                "job_id": job_id,
                **named,
                "wall_ms": job["wall_clock_ms"],
                "ended_ms": ended_ms,
                "gpu_milli": job["gpu_count"] or 0,
            }


def _walls(shelf: Shelf, bound: Bound) -> dict[str, dict[int, list[int]]]:
    """By job and hour: run time and cost."""
    found: dict[str, dict[int, list[int]]] = {}
    names = ("job_id", "hour", "wall_clock_ms", *_COSTS)
    for job_id, hour_s, wall_ms, *costs in read(shelf, JOB_HOURS, *names):
        if hour_s * 1000 < bound["to_ms"]:
            both = found.setdefault(job_id, {}).setdefault(hour_s * 1000, [0, 0])
            both[:] = both[0] + wall_ms, both[1] + sum(costs)
    return found


def ran(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """For how long jobs that were paid in the span had run by its end."""
    jobs = _jobs(shelf)
    for job_id, hours in sorted(_walls(shelf, bound).items()):
        if job_id in jobs and any(wall for hour, (wall, _) in hours.items() if hour >= bound["from_ms"]):
            job = jobs[job_id]
            is_over = job["state"] in ("completed", "cancelled") and job["ended"] is not None
            wall_ms = sum(wall for wall, _ in hours.values())
            yield {
                "job_id": job_id, **_named(job), "wall_ms": wall_ms, "ended_ms": job["ended"] if is_over else 0,
                "gpu_milli": job["gpu_count"] or 0,
            }  # fmt: skip


def hours_of(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """The same by the hour, with what they had cost."""
    walls = _walls(shelf, bound)
    for job_id in bound["jobs"]:
        wall_ms = nano = 0
        for hour_ms, (wall, cost) in sorted(walls.get(job_id, {}).items()):
            wall_ms, nano = wall_ms + wall, nano + cost
            if hour_ms >= bound["from_ms"] and wall > 0:
                at_ms = hour_ms + HOUR_MS
                yield {"job_id": job_id, "at_ms": at_ms, "wall_ms": wall_ms, "usd": usd(nano)}


def _named(job: Mapping[str, Any]) -> Row:
    return {name: job[name] for name in _NAMES}
