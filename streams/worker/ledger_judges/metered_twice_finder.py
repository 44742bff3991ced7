"""Finds where the rule `metered_twice` holds: reads which jobs of different sources hold the same GPUs.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.metered_twice import (
    APART_MS,
    NEW_MS,
    SameJobs,
    SourcedJob,
    finding,
    may_be_same,
    subject_first,
)
from streams.worker.ledger_judges import held_jobs_sql
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: What a job held in a minute: by node the thousandths of GPUs times ms, and what they cost.
_InMinute = dict[str, tuple[int, int]]


def metered_twice_findings(
    store: SqlStore, of: LedgerSettings, instants: range, firing: Collection[Alert]
) -> Iterator[LedgerFinding]:
    """Yield where it holds at these instants."""
    minutes = int(of.thresholds["minutes"])
    bound = {"from_ms": instants[0] - minutes * MINUTE_MS, "to_ms": instants[-1]}
    opened_ms = min([alert.started_ms for alert in firing], default=instants[0])
    pairs = _pairs(store, opened_ms - NEW_MS - APART_MS, bound)
    if not pairs:
        return
    jobs = sorted({each.job_id for pair in pairs for each in pair})
    held: dict[str, dict[int, _InMinute]] = {}
    for row in named_rows(store, held_jobs_sql.HELD_BY, "jobs", jobs, **bound):
        in_minute = held.setdefault(row["job_id"], {}).setdefault(row["minute_ms"], {})
        in_minute[row["node"]] = row["held"], row["nano"]
    nodes = sorted({node for of_job in held.values() for at in of_job.values() for node in at})
    has = {
        (row["node"], row["minute_ms"]): row["has"]
        for row in named_rows(store, held_jobs_sql.HAS, "nodes", nodes, **bound)
    }
    sampled = {
        (row["job_id"], row["minute_ms"])
        for row in named_rows(store, held_jobs_sql.SAMPLED_JOBS, "jobs", jobs, **bound)
    }
    fires = {alert.subject_name for alert in firing}
    for pair in pairs:
        latest_ms = max(each.began_ms for each in pair)
        goes_on = any(each.job_id in fires for each in pair)
        subjects = fires
        for at_ms in instants:
            window = range(at_ms - minutes * MINUTE_MS, at_ms, MINUTE_MS)
            one, other = ([held.get(each.job_id, {}).get(at, {}) for at in window] for each in pair)
            is_same = _is_same(one, other, window, latest_ms) and not _has_room(one, other, window, has)
            goes_on = is_same and (goes_on or at_ms - latest_ms <= NEW_MS)
            if not goes_on:
                continue
            alive = {each.job_id for each in pair if any((each.job_id, at) in sampled for at in window)}
            job, twin = subject_first(pair, subjects, alive)
            subjects = {job.job_id}
            mine = one if job is pair[0] else other
            nano = sum(nano for each in mine for _, nano in each.values())
            gpu_milli = max(sum(quantity for quantity, _ in each.values()) for each in mine) // MINUTE_MS
            yield finding(of, SameJobs(job, twin, tuple(sorted(mine[-1])), gpu_milli, nano), at_ms)


def _pairs(store: SqlStore, from_ms: int, bound: Mapping[str, int]) -> list[tuple[SourcedJob, SourcedJob]]:
    """The jobs of different sources that began together, and that share a node."""
    rows = rows_of(store.query(held_jobs_sql.BEGAN, {"from_ms": from_ms, "to_ms": bound["to_ms"]}))
    began = [SourcedJob(**{**row, "sources": tuple(row["sources"])}) for row in rows]
    everywhere = set.intersection(*({*each.sources} for each in began)) if began else set()
    if len(began) < 2 or everywhere:
        return []  # one collector has seen them all
    at_node: dict[str, set[str]] = {}
    for row in named_rows(
        store, held_jobs_sql.NODES_OF, "jobs", sorted({each.job_id for each in began}), **bound
    ):
        at_node.setdefault(row["node"], set()).add(row["job_id"])
    found: dict[tuple[str, str], tuple[SourcedJob, SourcedJob]] = {}
    by_job: dict[str, list[SourcedJob]] = {}
    for each in began:
        by_job.setdefault(each.job_id, []).append(each)
    for jobs in at_node.values():
        attempts = sorted(each for job_id in jobs for each in by_job[job_id])
        for one, other in combinations(attempts, 2):
            if may_be_same(one, other):
                found[one.job_id, other.job_id] = one, other
    return [found[key] for key in sorted(found)]


def _is_same(one: Sequence[_InMinute], other: Sequence[_InMinute], window: range, latest_ms: int) -> bool:
    """Whether both hold the same in each of these minutes; in the first ones, in which one of them began, the same nodes."""
    for at_ms, mine, its in zip(window, one, other, strict=True):
        if not mine or mine.keys() != its.keys():
            return False
        is_whole = at_ms > latest_ms
        if is_whole and any(mine[node][0] != its[node][0] for node in mine):
            return False
    return True


def _has_room(
    one: Sequence[_InMinute],
    other: Sequence[_InMinute],
    window: range,
    has: Mapping[tuple[str, int], int],
) -> bool:
    """Whether each of the nodes is known to have as much as both hold."""
    return all(
        mine[node][0] + its[node][0] <= has.get((node, at_ms), 0)
        for at_ms, mine, its in zip(window, one, other, strict=True)
        for node in mine
    )
