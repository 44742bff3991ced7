"""What the jobs of a training run cost and lost by the end of each hour: what `retry_overhead` judges.

Only what had happened by that instant counts, so that whoever judges an hour later, or many at once, finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS, NEVER_MS
from streams.engine.rules.lineage import BROKEN, DONE, RunJob, RunKey, RunSpan, runs_of

#: After so long without cost a run is taken as over.
QUIET_MS: Final = DAY_MS
#: Rules that name the attempts of a run that broke off: of one job of it, and of several.
NAMING: Final = ("retry_loop", "resubmit_loop")


class AttemptLoss(NamedTuple):
    """An attempt and what it lost, in nano-dollars; `began_ms` is NEVER_MS if it never started, `ended_ms` while it goes on."""

    began_ms: int
    ended_ms: int
    state: str
    lost_nano: int = 0
    #: What the start-up of a retry lost in each hour, by the end of the hour.
    starting: Sequence[tuple[int, int]] = ()


class JobLosses(NamedTuple):
    """A job with its attempts, and what it cost in nano-dollars, by the ends of hours: what was long before may be one of them."""

    about: RunJob
    attempts: Sequence[AttemptLoss]
    costs: Mapping[int, int]


class NamedLoop(NamedTuple):
    """When an alert fired that named attempts of a job, or of its run."""

    rule: str
    job_id: str
    began_ms: int
    over_ms: int


class RunSums(NamedTuple):
    """What a run has come to by an instant. `cost_nano` is of all of its jobs, `lost_nano` without what a loop named."""

    cost_nano: int
    lost_nano: int
    broken: int  # attempts that broke off and lost something
    is_paid: bool  # in the hour before
    is_named: bool  # an alert about a loop stood in that hour


class RunLosses:
    """The jobs with one key, or a job that is of no run but its own (`key` is None)."""

    def __init__(
        self, key: RunKey | None, jobs: Mapping[str, JobLosses], loops: Iterable[NamedLoop] = ()
    ) -> None:
        self.key = key
        self.jobs = jobs
        self._loops = [*loops]

    def runs(self, at_ms: int) -> list[list[str]]:
        """Which of the jobs that had begun by then are one run, the oldest first."""
        spans = [span for name, job in self.jobs.items() if (span := _span_at(name, job.attempts, at_ms))]
        if self.key is None:
            return [[span.job_id] for span in spans]
        return runs_of(spans, is_declared=bool(self.key.run_id))

    def sums(self, run: Sequence[str], at_ms: int) -> RunSums:
        """What these jobs had cost and lost by the end of an hour.

        What an attempt lost counts once it has broken off, the start-up of a retry at once.
        """
        loops = self._loops_of(run, at_ms)
        cost = lost = broken = 0
        for name in run:
            job = self.jobs[name]
            cost += sum(nano for hour_ms, nano in job.costs.items() if hour_ms <= at_ms)
            for each in job.attempts:
                if not (each.state in BROKEN and each.ended_ms < at_ms and each.lost_nano):
                    lost += sum(nano for hour_ms, nano in each.starting if hour_ms <= at_ms)
                elif not any(_names(loop, name, each.ended_ms) for loop in loops):
                    lost, broken = lost + each.lost_nano, broken + 1
        is_named = any(loop.over_ms > at_ms - HOUR_MS for loop in loops)
        return RunSums(cost, lost, broken, self._last_paid_ms(run, at_ms) == at_ms, is_named)

    def goes_on(self, job_id: str, at_ms: int) -> bool:
        """Whether an alert about a job's run stays in an hour in which the rule does not hold: the run cost nothing in it."""
        run = next((each for each in self.runs(at_ms) if job_id in each), [])
        paid_ms = self._last_paid_ms(run, at_ms)
        if paid_ms == at_ms or at_ms - paid_ms >= QUIET_MS:
            return False  # it was judged in this hour, or there is nothing to judge any more
        ended = [each for name in run for each in self.jobs[name].attempts if each.ended_ms < at_ms]
        if ended and max(ended, key=lambda each: (each.ended_ms, each.state in DONE)).state in DONE:
            return False
        return not self.sums(run, at_ms).is_named

    def _last_paid_ms(self, run: Iterable[str], at_ms: int) -> int:
        """The end of the last hour up to an instant in which these jobs cost anything; 0: none."""
        hours = (self.jobs[name].costs.items() for name in run)
        return max(
            (end_ms for costs in hours for end_ms, nano in costs if nano > 0 and end_ms <= at_ms), default=0
        )

    def _loops_of(self, run: Sequence[str], at_ms: int) -> list[NamedLoop]:
        return [loop for loop in self._loops if loop.job_id in run and loop.began_ms < at_ms]


def _names(loop: NamedLoop, job_id: str, ended_ms: int) -> bool:
    """Whether an alert names an attempt that broke off then: in the hour before it fired, or while it did."""
    is_about = loop.rule != "retry_loop" or loop.job_id == job_id
    return is_about and loop.began_ms - HOUR_MS < ended_ms <= loop.over_ms


def _span_at(job_id: str, attempts: Iterable[AttemptLoss], at_ms: int) -> RunSpan | None:
    """When a job went on, of what was known at an instant; None: it had not begun."""
    began = [each for each in attempts if each.began_ms < at_ms]
    if not began:
        return None
    last = max(began, key=lambda each: (each.ended_ms, each.began_ms))
    first_ms = min(each.began_ms for each in began)
    if last.ended_ms >= at_ms:
        return RunSpan(job_id, first_ms, NEVER_MS, "running")
    return RunSpan(job_id, first_ms, last.ended_ms, last.state)
