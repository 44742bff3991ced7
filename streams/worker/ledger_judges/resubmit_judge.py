"""Judges the rule `resubmit_loop` at whole minutes: reads which jobs are one run, and steps one alert for each.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.columns import rows_of
from schemas.durations import HOUR_MS, MINUTE_MS, NEVER_MS
from streams.engine.alerts.alert import Alert
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.lineage import (
    BROKEN,
    RunAttempt,
    RunJob,
    RunKey,
    RunLoop,
    RunLoss,
    run_job,
    run_key,
    run_loops,
)
from streams.engine.rules.resubmit_loop import finding, limits_of
from streams.engine.rules.slow_loops import hold_ms
from streams.worker.ledger_judges import run_sql
from streams.worker.ledger_judges.instants import changes_at, instants_of
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore

#: A loop holds for an hour after its last attempt, whose others ended in the hour before that.
_READ_BACK_MS: Final = 2 * HOUR_MS


class _JobsOfRun(NamedTuple):
    """The jobs of one run, and when they went on."""

    key: RunKey
    jobs: dict[str, RunJob]
    attempts: list[RunAttempt]


class ResubmitJudge:
    """Call `judge` for successive spans of whole minutes."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store

    def judge(self, of: LedgerSettings, firing: Sequence[Alert], since_ms: int, until_ms: int) -> list[Alert]:
        """The changes at the whole minutes in (since_ms, until_ms]."""
        return changes_at(instants_of(since_ms, until_ms, MINUTE_MS), of, firing, self._found)

    def _found(self, of: LedgerSettings, firing: Sequence[Alert], instants: range) -> Iterator[LedgerFinding]:
        limits = limits_of(of.thresholds)
        bound = {"from_ms": instants[0] - _READ_BACK_MS, "to_ms": instants[-1]}
        # From the end of the first attempt of a slow loop until it is over.
        longest_ms = limits.slow_ms + hold_ms(limits.slow_ms)
        slow = {**bound, "from_ms": instants[0] - max(longest_ms, _READ_BACK_MS)}
        runs = [*self._runs(firing, bound, slow)]
        jobs = sorted({each.job_id for run in runs for each in run.attempts if each.state in BROKEN})
        if not jobs:
            return
        lost = {
            (row["job_id"], row["attempt"]): RunLoss(row["nano"], row["cost_nano"])
            for row in named_rows(self._store, run_sql.LOST, "jobs", jobs)
        }
        alerted = [*named_rows(self._store, run_sql.ALERTED, "jobs", jobs, **slow)]

        def loss(attempt: RunAttempt) -> RunLoss:
            return lost.get((attempt.job_id, attempt.attempt), RunLoss())

        for run in runs:
            loops = run_loops(run.attempts, limits, loss)
            subject = next((alert.subject_name for alert in firing if alert.subject_name in run.jobs), "")
            alerted_ms = [
                (row["began_ms"], NEVER_MS if row["over_ms"] is None else row["over_ms"])
                for row in alerted
                if row["job_id"] in run.jobs
            ]
            before_ms = instants[0] - MINUTE_MS
            for at_ms, loop in _holding(loops, instants):
                subject = subject if at_ms == before_ms + MINUTE_MS else ""
                first_ms = loop.attempts[0].ended_ms
                if not subject and any(began <= at_ms and over > first_ms for began, over in alerted_ms):
                    continue
                before_ms, subject = at_ms, subject or loop.attempts[-1].job_id
                losses = [loss(each) for each in loop.attempts]
                yield finding(of, run.key, loop, run.jobs[subject], losses, at_ms)

    def _runs(
        self, firing: Iterable[Alert], bound: Mapping[str, int], slow: Mapping[str, int]
    ) -> Iterator[_JobsOfRun]:
        """The runs of several jobs of which one or more broke off in the span, or of which an alert fires.

        `slow`: the span in which attempts of one that is slow ended.
        """
        fires = {alert.subject_name for alert in firing}
        broken = {row["job_id"] for row in rows_of(self._store.query(run_sql.BROKEN_JOBS, bound))}
        if not broken | fires:
            return
        found = _by_key(named_rows(self._store, run_sql.ABOUT, "jobs", sorted(broken | fires)))
        runs = self._with_others(found, slow)
        broke = self._attempts([job_id for jobs in runs.values() for job_id in jobs])
        # What went on beside an attempt that broke off in the span may have ended before the span.
        began_ms = min(
            (each.began_ms for each in broke if each.state in BROKEN and each.ended_ms > slow["from_ms"]),
            default=slow["from_ms"],
        )
        if began_ms < slow["from_ms"]:
            runs = self._with_others(runs, {**slow, "from_ms": began_ms})
            broke = self._attempts([job_id for jobs in runs.values() for job_id in jobs])
        attempts: dict[str, list[RunAttempt]] = {}
        for each in broke:
            attempts.setdefault(each.job_id, []).append(each)
        for key, jobs in runs.items():
            yield _JobsOfRun(key, jobs, [each for job_id in jobs for each in attempts.get(job_id, ())])

    def _with_others(
        self, found: Mapping[RunKey, dict[str, RunJob]], span: Mapping[str, int]
    ) -> dict[RunKey, dict[str, RunJob]]:
        """Those of these runs that have several jobs, with all that went on in the span."""
        owners = sorted({key.owner for key in found})
        others = (
            _by_key(named_rows(self._store, run_sql.OF_OWNERS, "owners", owners, **span)) if owners else {}
        )
        runs = {key: {**found[key], **others.get(key, {})} for key in sorted(found)}
        return {key: jobs for key, jobs in runs.items() if len(jobs) > 1}

    def _attempts(self, jobs: Iterable[str]) -> list[RunAttempt]:
        """When these jobs went on."""
        return [
            RunAttempt(**{**row, "ended_ms": NEVER_MS if row["ended_ms"] is None else row["ended_ms"]})
            for row in named_rows(self._store, run_sql.ATTEMPTS, "jobs", sorted(jobs))
        ]


def _by_key(rows: Iterable[Mapping[str, Any]]) -> dict[RunKey, dict[str, RunJob]]:
    found: dict[RunKey, dict[str, RunJob]] = {}
    for row in rows:
        job = run_job(row)
        key = run_key(job)
        if key is not None:
            found.setdefault(key, {})[job.job_id] = job
    return found


def _holding(loops: Sequence[RunLoop], instants: range) -> Iterator[tuple[int, RunLoop]]:
    """Yield the instants at which a loop holds, and the one that began last of those that hold."""
    at: dict[int, RunLoop] = {}
    for loop in loops:  # in the order in which they begin
        first_ms = max(-(-loop.begin_ms // MINUTE_MS) * MINUTE_MS, instants[0])
        for at_ms in range(first_ms, min(loop.until_ms - 1, instants[-1]) + 1, MINUTE_MS):
            at[at_ms] = loop
    yield from sorted(at.items())
