"""Which jobs are one training run at each minute, for budgets per run.

A pure function of what is known of the jobs. A run is judged in spells, in which nothing of it changes, so that a minute is
judged alike however many are judged at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from schemas.durations import MINUTE_MS, NEVER_MS
from streams.engine.alerts.budgets import Budget, own_budget
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.ledger_rules.subject import BudgetSubject, Run
from streams.engine.rules.lineage import RunJob, RunKey, run_key
from streams.engine.rules.run_losses import AttemptLoss, JobLosses, RunLosses


class BudgetJob(NamedTuple):
    """A job, what tells its run, its own budget as it is stored, and its attempts; `is_live`: its run is to be judged."""

    run: Run
    about: RunJob
    budget: Mapping[str, str]
    attempts: Sequence[AttemptLoss]
    is_live: bool = True

    @property
    def key(self) -> RunKey | None:
        """What its run is known by."""
        return run_key(self.about)

    @property
    def has_begun(self) -> bool:
        """Whether any attempt has: before that nobody knows of which run it will be."""
        return any(each.began_ms < NEVER_MS for each in self.attempts)


class Spell(NamedTuple):
    """Minutes in which a budget per run has the same subject."""

    subject: BudgetSubject
    minutes: Minutes


def spells(jobs: Iterable[BudgetJob], budgets: Sequence[Budget], minutes: Minutes) -> Iterator[Spell]:
    """Yield the spells of each run that has a budget, its own or one of these, those of one run in order.

    Without a beginning of the minutes all are of one spell, as of the last one.
    """
    units: dict[RunKey | str, list[BudgetJob]] = {}
    for job in jobs:
        key = job.key if job.has_begun else None
        units.setdefault(job.run.job_id if key is None else key, []).append(job)
    for of, unit in units.items():
        if unit[0].has_begun:
            yield from _spells(_SameRun(of if isinstance(of, RunKey) else None, unit), budgets, minutes)
        else:
            yield from (Spell(subject, minutes) for subject in _subjects(unit, budgets, _first))


def _subjects(
    jobs: Sequence[BudgetJob], budgets: Iterable[Budget], run_of: Callable[[Sequence[BudgetJob]], Run]
) -> Iterator[BudgetSubject]:
    """Yield a run with each of its budgets; its own one is that of its newest job."""
    own = own_budget(jobs[-1].budget)
    if own is not None:
        yield BudgetSubject(own, run_of(jobs))
    for budget in budgets:
        mine = [job for job in jobs if job.run.matches(budget.match)]
        if mine:
            yield BudgetSubject(budget, run_of(mine))


def _first(jobs: Sequence[BudgetJob]) -> Run:
    return jobs[0].run


class _SameRun:
    """Jobs that may be one run."""

    def __init__(self, key: RunKey | None, jobs: Sequence[BudgetJob]) -> None:
        self._jobs = {job.run.job_id: job for job in jobs}
        losses = {name: JobLosses(job.about, job.attempts, {}) for name, job in self._jobs.items()}
        self._losses = RunLosses(key, losses)

    def changes(self) -> Iterator[int]:
        """Yield the instants at which an attempt begins or ends."""
        return (
            ms
            for job in self._jobs.values()
            for each in job.attempts
            for ms in (each.began_ms, each.ended_ms)
        )

    def runs(self, at_ms: int) -> list[list[BudgetJob]]:
        """The runs by what was known at a minute, its own instant included; without those of which no job is live."""
        found = [[self._jobs[name] for name in run] for run in self._losses.runs(at_ms + 1)]
        return [run for run in found if any(job.is_live for job in run)]

    def run_of(self, jobs: Sequence[BudgetJob], at_ms: int) -> Run:
        """These jobs of a run as one, by what was known then."""
        names = [job.run.job_id for job in jobs]
        known = [span for name in names if (span := self._losses.span(name, at_ms + 1)) is not None]
        last = max(known, key=lambda span: (span.ended_ms, span.began_ms, span.job_id))
        deadlines = [job.run.deadline_ms for job in jobs if job.run.deadline_ms is not None]
        first = jobs[0].run
        return Run(
            **{
                name: getattr(first, name)
                for name in ("job_id", "owner", "team", "project", "experiment", "run_id")
            },
            state=last.state,
            started_ms=min(span.began_ms for span in known),
            ended_ms=None if last.ended_ms == NEVER_MS else last.ended_ms,
            deadline_ms=deadlines[-1] if deadlines else None,
            jobs=(*names,),
        )


def _spells(unit: _SameRun, budgets: Sequence[Budget], minutes: Minutes) -> Iterator[Spell]:
    # What happens at a minute's own instant is known at it.
    cuts = {(ms - 1) // MINUTE_MS * MINUTE_MS for ms in unit.changes()}
    inside = (ms for ms in cuts if minutes.since_ms < ms < minutes.until_ms)
    for since_ms, until_ms in pairwise([minutes.since_ms, *sorted(inside), minutes.until_ms]):
        for run in unit.runs(until_ms):
            for subject in _subjects(run, budgets, partial(unit.run_of, at_ms=until_ms)):
                yield Spell(subject, Minutes(since_ms, until_ms))
