"""Reads what training runs cost and lost, of those that may have lost much.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.columns import rows_of
from schemas.durations import DAY_MS, HOUR_MS, NEVER_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.lineage import RunJob, RunKey, run_job, run_key
from streams.engine.rules.run_losses import NAMING, AttemptLoss, JobLosses, NamedLoop, RunLosses
from streams.worker.ledger_judges import run_losses_sql, run_sql
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: Jobs of one name with more time than that between them are of two runs.
_APART_MS: Final = DAY_MS
_Bound = Mapping[str, int]


class _Unit(NamedTuple):
    """Jobs that may be one run; without a key, one that is of no run but its own."""

    key: RunKey | None
    jobs: Mapping[str, RunJob]


class _Span(NamedTuple):
    """When a job of a run went on."""

    began_ms: int
    ended_ms: int
    job: RunJob


def run_losses(
    store: SqlStore,
    least_nano: int,
    firing: Collection[str],
    changes: Iterable[Alert],
    begin_ms: int,
    end_ms: int,
) -> list[RunLosses]:
    """The runs of which anything was paid in [begin_ms, end_ms), and that may have lost so much; and those of the jobs in `firing`.

    `changes`: alerts that are not stored yet.
    """
    bound = {"from_ms": begin_ms, "to_ms": end_ms}
    units = [*_units(store, least_nano, firing, bound)]
    names = sorted({name for unit in units for name in unit.jobs})
    if not names:
        return []
    costs: dict[str, dict[int, int]] = {}
    for row in named_rows(store, run_losses_sql.COSTS, "jobs", names, **bound):
        costs.setdefault(row["job_id"], {})[row["at_ms"]] = row["nano"]
    attempts = _attempts(store, names, bound)
    loops = _loops(store, names, changes, bound)
    return [
        RunLosses(
            unit.key,
            {
                name: JobLosses(job, attempts.get(name, ()), costs.get(name, {}))
                for name, job in unit.jobs.items()
            },
            [loop for name in sorted(unit.jobs) for loop in loops.get(name, ())],
        )
        for unit in units
    ]


def _units(store: SqlStore, least_nano: int, firing: Collection[str], bound: _Bound) -> Iterator[_Unit]:
    lost: dict[RunKey | str, int] = {}
    alone: dict[str, RunJob] = {}
    for row in rows_of(store.query(run_losses_sql.LOSING, bound)):
        job = run_job(row)
        key = run_key(job)
        of = job.job_id if key is None else key
        lost[of] = lost.get(of, 0) + row["nano"]
        alone |= {job.job_id: job} if key is None else {}
    fires = [run_job(row) for row in named_rows(store, run_sql.ABOUT, "jobs", sorted(firing))]
    wanted = {of for of, nano in lost.items() if nano >= least_nano}
    for job in fires:
        key = run_key(job)
        wanted.add(job.job_id if key is None else key)
        alone |= {job.job_id: job} if key is None else {}
    for name in sorted(of for of in wanted if isinstance(of, str)):
        yield _Unit(None, {name: alone[name]})
    keys = {of for of in wanted if isinstance(of, RunKey)}
    known = set[str]()
    for key, spans in _spans(store, keys, bound).items():
        for part in _parts(spans, is_declared=bool(key.run_id)):
            jobs = {each.job.job_id: each.job for each in part}
            if jobs.keys() & {*firing} or max(each.ended_ms for each in part) > bound["from_ms"] - HOUR_MS:
                known |= jobs.keys()
                yield _Unit(key, jobs)
    # Those that began too long ago, and are not paid any more.
    for job in fires:
        key = run_key(job)
        if key is not None and job.job_id not in known:
            yield _Unit(key, {job.job_id: job})


def _spans(store: SqlStore, keys: Collection[RunKey], bound: _Bound) -> dict[RunKey, list[_Span]]:
    """When the jobs with these keys went on, the oldest first."""
    found: dict[RunKey, list[_Span]] = {key: [] for key in sorted(keys)}
    for row in named_rows(
        store, run_losses_sql.OF_OWNERS, "owners", sorted({key.owner for key in keys}), **bound
    ):
        job = run_job(row)
        key = run_key(job)
        if key is not None and key in found:
            found[key].append(_Span(row["began_ms"], row["ended_ms"], job))
    return {key: sorted(spans) for key, spans in found.items()}


def _parts(spans: Sequence[_Span], *, is_declared: bool) -> Iterator[list[_Span]]:
    """Yield the jobs that may be of one run; all that name the same one are (`is_declared`)."""
    part: list[_Span] = []
    latest_ms = 0
    for each in spans:
        if part and not is_declared and each.began_ms - latest_ms > _APART_MS:
            yield part
            part = []
        part.append(each)
        latest_ms = max(latest_ms, each.ended_ms)
    if part:
        yield part


def _attempts(store: SqlStore, names: Sequence[str], bound: _Bound) -> dict[str, list[AttemptLoss]]:
    lost: dict[tuple[str, int], list[tuple[int, int, int]]] = {}
    for row in named_rows(store, run_losses_sql.LOST, "jobs", names, **bound):
        of = lost.setdefault((row["job_id"], row["attempt"]), [])
        of.append((row["at_ms"], row["nano"], row["starting_nano"]))
    rows = [*named_rows(store, run_losses_sql.ATTEMPTS, "jobs", names)]
    firsts: dict[str, int] = {}
    for row in rows:
        firsts[row["job_id"]] = min(row["attempt"], firsts.get(row["job_id"], row["attempt"]))
    found: dict[str, list[AttemptLoss]] = {}
    for row in rows:
        hours = sorted(lost.get((row["job_id"], row["attempt"]), ()))
        is_retry = row["attempt"] > firsts[row["job_id"]]
        starting = [(at_ms, nano) for at_ms, _, nano in hours if nano] if is_retry else []
        each = AttemptLoss(
            row["began_ms"], row["ended_ms"], row["state"], sum(nano for _, nano, _ in hours), starting
        )
        found.setdefault(row["job_id"], []).append(each)
    return found


def _loops(
    store: SqlStore, names: Sequence[str], changes: Iterable[Alert], bound: _Bound
) -> dict[str, list[NamedLoop]]:
    by_id: dict[str, NamedLoop] = {}
    for row in named_rows(store, run_losses_sql.LOOPS, "jobs", names, **bound):
        alert_id = row.pop("alert_id")
        by_id[alert_id] = NamedLoop(**row)
    for alert in changes:
        if alert.rule in NAMING:
            over_ms = NEVER_MS if alert.resolved_ms is None else alert.resolved_ms
            by_id[alert.alert_id] = NamedLoop(alert.rule, alert.subject_name, alert.started_ms, over_ms)
    found: dict[str, list[NamedLoop]] = {}
    for loop in by_id.values():
        found.setdefault(loop.job_id, []).append(loop)
    return found
