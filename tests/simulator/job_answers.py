"""Answers of the simulated store to the hourly rules about jobs: rows and sums, in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.durations import DAY_MS, NEVER_MS
from schemas.tables import ALERTS, ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS
from schemas.units import COMPONENTS
from streams.worker.ledger_judges.run_sql import ABOUT_COLUMNS
from tests.oracle.model import HOUR_MS, MINUTE_MS
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


def losing(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What attempts that broke off lost, of jobs of whoever has one that is paid in the span."""
    broke = {
        job_id
        for job_id, state, ended in read(shelf, ATTEMPTS, "job_id", "state", "ended")
        if state in _BROKEN and ended is not None and ended < bound["to_ms"]
    }
    lost: dict[str, int] = {}
    paid: set[str] = set()
    for job_id, hour_s, nano in read(shelf, JOB_HOURS, "job_id", "hour", "lost_cost_usd"):
        if hour_s * 1000 < bound["to_ms"]:
            lost[job_id] = lost.get(job_id, 0) + nano
            paid |= {job_id} if hour_s * 1000 >= bound["from_ms"] else set()
    abouts = {row["job_id"]: row for row in _abouts(shelf)}
    whose = {(abouts[job_id]["owner"], abouts[job_id]["team"]) for job_id in paid & abouts.keys()}
    for job_id in sorted(broke & abouts.keys()):
        about = abouts[job_id]
        if lost.get(job_id, 0) > 0 and (about["owner"], about["team"]) in whose:
            yield {**about, "nano": lost[job_id]}


def _abouts(shelf: Shelf) -> Iterator[Row]:
    for row in read(shelf, JOBS, *ABOUT_COLUMNS):
        yield dict(zip(ABOUT_COLUMNS, row, strict=True))


def abouts(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What tells the runs of jobs."""
    yield from (row for row in _abouts(shelf) if row["job_id"] in bound["jobs"])


def of_owners(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Jobs of owners, and when they went on."""
    names = ("job_id", "started", "ended")
    spans = {job_id: (started, ended) for job_id, started, ended in read(shelf, JOBS, *names)}
    for row in _abouts(shelf):
        began_ms, ended_ms = spans[row["job_id"]]
        if row["owner"] in bound["owners"] and began_ms is not None and began_ms < bound["to_ms"]:
            yield {**row, "began_ms": began_ms, "ended_ms": NEVER_MS if ended_ms is None else ended_ms}


def attempts(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """When attempts went on."""
    names = ("job_id", "attempt", "state", "started", "ended")
    for job_id, attempt, state, began, ended in read(shelf, ATTEMPTS, *names):
        if job_id in bound["jobs"]:
            began_ms, ended_ms = (NEVER_MS if at_ms is None else at_ms for at_ms in (began, ended))
            row = {"job_id": job_id, "attempt": attempt, "state": state}
            yield {**row, "began_ms": began_ms, "ended_ms": ended_ms}


def lost(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What attempts lost by the hour, and their start-up."""
    sums: dict[tuple[str, int, int], list[int]] = {}
    names = ("job_id", "attempt", "hour", "lost_cost_usd", "starting_lost_cost_usd")
    for job_id, attempt, hour_s, nano, starting in read(shelf, JOB_HOURS, *names):
        if job_id in bound["jobs"] and hour_s * 1000 < bound["to_ms"]:
            both = sums.setdefault((job_id, attempt, hour_s * 1000 + HOUR_MS), [0, 0])
            both[:] = both[0] + nano, both[1] + starting
    for (job_id, attempt, at_ms), (nano, starting) in sums.items():
        row = {"job_id": job_id, "attempt": attempt, "at_ms": at_ms}
        yield {**row, "nano": nano, "starting_nano": starting}


def costs(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What jobs cost by the hour."""
    for job_id, hours in _walls(shelf, bound).items():
        if job_id in bound["jobs"]:
            for hour_ms, (_, nano) in hours.items():
                yield {"job_id": job_id, "at_ms": hour_ms + HOUR_MS, "nano": nano}


def loops(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """When alerts fired that name attempts of jobs."""
    names = ("alert_id", "rule", "subject_name", "started", "resolved")
    for alert_id, rule, job_id, began_ms, resolved in read(shelf, ALERTS, *names):
        if rule in ("retry_loop", "resubmit_loop") and job_id in bound["jobs"] and began_ms < bound["to_ms"]:
            over_ms = NEVER_MS if resolved is None else resolved
            row = {"alert_id": alert_id, "rule": rule, "job_id": job_id}
            yield {**row, "began_ms": began_ms, "over_ms": over_ms}


def rows_by_day(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """How many rows of hours the days have."""
    hours = [1_000 * hour_s for table in (JOB_HOURS, NODE_HOURS) for (hour_s,) in read(shelf, table, "hour")]
    inside = (hour_ms for hour_ms in hours if bound["from_ms"] <= hour_ms < bound["to_ms"])
    days = Counter(hour_ms // DAY_MS * DAY_MS for hour_ms in inside)
    yield from ({"day_ms": day_ms, "rows": rows} for day_ms, rows in sorted(days.items()))


def quiet_hours(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Hours in which jobs ran, and ends of their attempts."""
    since_ms, to_ms = bound["from_ms"] - 24 * HOUR_MS, bound["to_ms"]
    ends: dict[str, list[tuple[int, bool]]] = {}
    for job_id, state, ended in read(shelf, ATTEMPTS, "job_id", "state", "ended"):
        if ended is not None and since_ms - HOUR_MS <= ended < to_ms:
            ends.setdefault(job_id, []).append((ended, state in ("completed", "cancelled")))
    for job_id, hours in sorted(_walls(shelf, bound).items()):
        inside = {
            hour_ms + HOUR_MS: wall for hour_ms, (wall, _) in sorted(hours.items()) if hour_ms >= since_ms
        }
        if job_id in bound["jobs"] and inside:
            yield {
                "job_id": job_id,
                "with_run_time": [at_ms for at_ms, wall in inside.items() if wall > 0],
                "ends": sorted(at_ms for at_ms, _ in ends.get(job_id, ())),
                "done": sorted(at_ms for at_ms, is_done in ends.get(job_id, ()) if is_done),
            }


def stood(shelf: Shelf, rule: str, job_id: str, at_ms: int) -> bool:
    """Whether a rule was firing for a job in the hour that ends then."""
    names = ("rule", "subject_name", "started", "resolved")
    return any(
        (of_rule, name) == (rule, job_id)
        and started <= at_ms
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
