"""Answers of the simulated store to the statements of receipts and digests: rows and sums, in plain Python.

Expected rates, other jobs of a kind and what would have been cheaper have no answer here: they are unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from schemas.receipt_table import RECEIPTS
from schemas.tables import ATTEMPTS, JOB_HOURS, JOBS
from schemas.units import COMPONENTS
from streams.estimate import past
from streams.worker.receipts import digest_sql, receipt_sql
from streams.worker.receipts.digest_sql import SubjectKind
from tests.simulator.shelf_rows import Bound, Row, read, usd
from tests.simulator.store import Shelf

_COSTS = tuple(f"{component}_cost_usd" for component in COMPONENTS)
_ENDS = ("completed", "cancelled", "preempted", "failed")
_SAME = (
    "job_id", "owner", "team", "project", "experiment", "state", "attempts", "wall_clock_ms", "gpu_type", "purchase",
)  # fmt: skip
_KIND_NAMES = ("team", "project", "experiment", "gpu_type", "purchase", "gpus")


def due(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Jobs that are over and have no receipt of their end, the earliest first; of each only some a day."""
    told = [
        (name, ended, time)
        for kind, name, ended, time in read(shelf, RECEIPTS, "type", "subject_name", "ended", "time")
        if kind == "job.ended"
    ]
    until_ms, day_ms = bound["until_ms"], bound["day_ms"]
    today = [name for name, _, time in told if time > until_ms - day_ms]
    lately = {name for name, _, time in told if time > until_ms - 2 * day_ms}
    since = dict(zip(bound["owners"], bound["since"], strict=True))
    names = (*_SAME, "started", "ended", "gpu_count", "shard")
    found: list[Row] = []
    for row in read(shelf, JOBS, *names):
        job = dict(zip(names, row, strict=True))
        ended_ms, job_id = job["ended"], job["job_id"]
        if ended_ms is None or job["state"] not in _ENDS or job["owner"] not in since:
            continue
        over_ms = ended_ms + (job["state"] not in ("completed", "cancelled")) * bound["next_attempt_ms"]
        if (
            job["shard"] in bound["late"]
            or not (ended_ms >= bound["from_ms"] or job_id in lately)
            or ended_ms < since[job["owner"]]
            or over_ms > until_ms
            or (job_id, ended_ms) in {each[:2] for each in told}
            or today.count(job_id) >= bound["at_most"]
        ):
            continue
        same = {name: job[name] for name in _SAME}
        times = {"started_ms": job["started"], "ended_ms": ended_ms}
        found.append({**same, **times, "gpus": str(job["gpu_count"])})
    found.sort(key=lambda each: (each["ended_ms"], each["job_id"]))
    yield from found[: bound["limit"]]


def totals(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """What jobs cost, lost, and how long their GPUs were sampled."""
    sums: dict[str, list[int]] = {}
    names = ("lost_cost_usd", "sampled_gpu_ms", "productive_gpu_ms", "unpriced_gpu_milli_ms", *_COSTS)
    for job_id, lost, sampled, productive, unpriced, *costs in read(shelf, JOB_HOURS, "job_id", *names):
        if job_id in bound["jobs"]:
            each = sums.setdefault(job_id, [0, 0, 0, 0, 0])
            more = (sum(costs), lost, sampled, productive, unpriced)
            each[:] = (a + b for a, b in zip(each, more, strict=True))
    for job_id, (cost, lost, sampled, productive, unpriced) in sums.items():
        yield {
            "job_id": job_id, "usd": str(usd(cost)), "lost_usd": str(usd(lost)), "sampled": str(sampled),
            "productive": str(productive), "is_unpriced": unpriced > 0,
        }  # fmt: skip


def broken(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """How attempts broke off."""
    counts: dict[str, Row] = {}
    for job_id, state in read(shelf, ATTEMPTS, "job_id", "state"):
        if job_id in bound["jobs"]:
            row = counts.setdefault(job_id, {"job_id": job_id, "preemptions": 0, "failures": 0})
            row["preemptions"] += state == "preempted"
            row["failures"] += state == "failed"
    yield from counts.values()


def _nobody(_: Shelf, __: Bound) -> Iterator[Row]:
    yield {**{f"jobs{place}": 0 for place in range(len(_KIND_NAMES))}, "jobs": 0, "low": "0", "high": "0"}


def _nothing(_: Shelf, __: Bound) -> Iterator[Row]:
    yield from ()


def stored(shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """Which receipts there are."""
    yield from (
        {"receipt_id": each} for (each,) in read(shelf, RECEIPTS, "receipt_id") if each in bound["ids"]
    )


def _hours(kind: SubjectKind, shelf: Shelf, bound: Bound) -> Iterator[tuple[bool, str, Row]]:
    """(whether it is of the later week, job, row) of the jobs of an owner or a team."""
    jobs = {job_id for job_id, name in read(shelf, JOBS, "job_id", kind) if name == bound["name"]}
    names = (
        "job_id", "hour", "lost_cost_usd", "sampled_gpu_ms", "productive_gpu_ms", "gpu_milli_ms", "wall_clock_ms", *_COSTS,
    )  # fmt: skip
    for values in read(shelf, JOB_HOURS, *names):
        row = dict(zip(names, values, strict=True))
        if row["job_id"] in jobs and bound["before_ms"] <= row["hour"] * 1000 < bound["until_ms"]:
            yield row["hour"] * 1000 >= bound["from_ms"], row["job_id"], row


def _cost(row: Row) -> int:
    return sum(int(row[name]) for name in _COSTS)


def week_totals(kind: SubjectKind, shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """The cost of two weeks, and figures of the later one."""
    both = list(_hours(kind, shelf, bound))
    later = [row for is_later, _, row in both if is_later]
    yield {
        "usd": str(usd(sum(map(_cost, later)))),
        "previous_usd": str(usd(sum(_cost(row) for is_later, _, row in both if not is_later))),
        "lost_usd": str(usd(sum(row["lost_cost_usd"] for row in later))),
        "gpu_usd": str(usd(sum(row["gpu_cost_usd"] for row in later))),
        "sampled": str(sum(row["sampled_gpu_ms"] for row in later)),
        "productive": str(sum(row["productive_gpu_ms"] for row in later)),
        "jobs": len({row["job_id"] for row in later}),
    }


def week_drivers(kind: SubjectKind, shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """The components of jobs whose cost changed most."""
    cells: dict[tuple[str, str], list[int]] = {}
    for is_later, job_id, row in _hours(kind, shelf, bound):
        for component in COMPONENTS:
            amount = row["gpu_milli_ms" if component == "gpu" else "wall_clock_ms"]
            cell = cells.setdefault((job_id, component), [0, 0, 0, 0])
            cell[0 if is_later else 2] += row[f"{component}_cost_usd"]
            cell[1 if is_later else 3] += amount
    changed = [(key, cell) for key, cell in cells.items() if cell[0] != cell[2]]
    changed.sort(key=lambda each: (-abs(each[1][0] - each[1][2]), each[0]))
    for (job_id, component), (after, amount, before, amount_before) in changed[: bound["most"]]:
        yield {
            "job_id": job_id, "component": component, "usd": str(usd(after)), "previous_usd": str(usd(before)),
            "amount": str(amount), "previous_amount": str(amount_before),
        }  # fmt: skip


def week_largest(kind: SubjectKind, shelf: Shelf, bound: Bound) -> Iterator[Row]:
    """The jobs that cost most in the later week."""
    sums: dict[str, int] = {}
    for is_later, job_id, row in _hours(kind, shelf, bound):
        sums[job_id] = sums.get(job_id, 0) + _cost(row) * is_later
    largest = sorted(((-cost, job_id) for job_id, cost in sums.items() if cost > 0))
    yield from ({"job_id": job_id, "usd": str(usd(-cost))} for cost, job_id in largest[: bound["most"]])


def _statements() -> Iterator[tuple[str, Callable[[Shelf, Any], Iterator[Row]]]]:
    yield receipt_sql.DUE, due
    yield receipt_sql.TOTALS, totals
    yield receipt_sql.BROKEN, broken
    yield receipt_sql.EXPECTED, _nothing
    yield digest_sql.STORED, stored
    kinds: tuple[SubjectKind, ...] = ("owner", "team")
    for kind in kinds:
        yield digest_sql.totals_sql(kind), partial(week_totals, kind)
        yield digest_sql.drivers_sql(kind), partial(week_drivers, kind)
        yield digest_sql.largest_sql(kind), partial(week_largest, kind)
    names = dict.fromkeys(_KIND_NAMES, "x")
    for absent in _subsets(_KIND_NAMES):
        wanted = past.kinds({name: "" if name in absent else "x" for name in names})
        if wanted:
            yield past.counting_lately(wanted, names, "", 0)[0], _nobody
        for of_kind in wanted:
            yield past.costing(of_kind, names, "", 0)[0], _nobody


def _subsets(names: tuple[str, ...]) -> Iterator[set[str]]:
    for mask in range(2 ** len(names)):
        yield {name for place, name in enumerate(names) if mask >> place & 1}


STATEMENTS = dict(_statements())
