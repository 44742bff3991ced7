"""What the jobs of a training run cost and lost by the end of each hour: what `retry_overhead` judges.

Only what had happened by that instant counts, so that whoever judges an hour later, or many at once, finds the same.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS, NEVER_MS
from streams.engine.rules.lineage import BROKEN, DONE, RunJob, RunKey, RunSpan, runs_of

#: After so long without cost a run is taken as over.
QUIET_MS: Final = DAY_MS
#: Rules that name the attempts of a run that broke off: of one job of it, and of several.
_OF_JOB: Final = "retry_loop"
NAMING: Final = (_OF_JOB, "resubmit_loop")


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
        known = [*loops]
        self._loops = {name: [loop for loop in known if loop.job_id == name] for name in jobs}
        self._curves = {name: _JobCurve(job, self._loops[name]) for name, job in jobs.items()}
        attempts = [each for job in jobs.values() for each in job.attempts]
        self._changes = sorted(at_ms for each in attempts for at_ms in (each.began_ms, each.ended_ms))
        self._runs: tuple[int, list[list[str]]] = -1, []

    def runs(self, at_ms: int) -> list[list[str]]:
        """Which of the jobs that had begun by then are one run, the oldest first."""
        place = bisect_left(self._changes, at_ms)
        if place != self._runs[0]:  # else nothing began or ended since it was asked for
            spans = [span for name, curve in self._curves.items() if (span := curve.span(name, at_ms))]
            apart = [[span.job_id] for span in spans]
            key = self.key
            self._runs = place, apart if key is None else runs_of(spans, is_declared=bool(key.run_id))
        return self._runs[1]

    def span(self, job_id: str, at_ms: int) -> RunSpan | None:
        """When a job went on, of what was known at an instant; None: it had not begun."""
        return self._curves[job_id].span(job_id, at_ms)

    def sums(self, run: Sequence[str], at_ms: int) -> RunSums:
        """What these jobs had cost and lost by the end of an hour.

        What an attempt lost counts once it has broken off, the start-up of a retry at once.
        """
        cost = lost = broken = 0
        for name in run:
            curve = self._curves[name]
            cost += curve.cost_by(at_ms)
            for_job = curve.lost_by(at_ms)
            lost, broken = lost + for_job[0], broken + for_job[1]
        loops = [loop for name in run for loop in self._loops[name] if loop.began_ms < at_ms]
        of_run = [loop for loop in loops if loop.rule != _OF_JOB]
        for each in {each for loop in of_run for name in run for each in self._curves[name].named_by(loop)}:
            if each.ended_ms < at_ms and not (each.named_ms is not None and each.named_ms < at_ms):
                lost, broken = lost - each.lost_nano, broken - 1
        is_named = any(loop.over_ms > at_ms - HOUR_MS for loop in loops)
        return RunSums(cost, lost, broken, self.is_paid(run, at_ms), is_named)

    def is_paid(self, run: Iterable[str], at_ms: int) -> bool:
        """Whether these jobs cost anything in the hour that ends then."""
        return any(self.jobs[name].costs.get(at_ms, 0) > 0 for name in run)

    def goes_on(self, job_id: str, at_ms: int) -> bool:
        """Whether an alert about a job's run stays in an hour in which the rule does not hold: the run cost nothing in it."""
        run = next((each for each in self.runs(at_ms) if job_id in each), [])
        paid_ms = max((self._curves[name].last_paid_ms(at_ms) for name in run), default=0)
        if paid_ms == at_ms or at_ms - paid_ms >= QUIET_MS:
            return False  # it was judged in this hour, or there is nothing to judge any more
        _, is_done = max((self._curves[name].last_end(at_ms) for name in run), default=(0, False))
        return not (is_done or self.sums(run, at_ms).is_named)


class _LostAttempt(NamedTuple):
    """An attempt that broke off and lost something; `named_ms`: when an alert about a loop of its own job named it."""

    job_id: str
    ended_ms: int
    lost_nano: int
    named_ms: int | None
    place: int  # among the attempts of the job


class _JobCurve:
    """What a job had come to at any instant: sums up to each change, so that each look is a search."""

    def __init__(self, job: JobLosses, loops: Iterable[NamedLoop]) -> None:
        of_job = [loop for loop in loops if loop.rule == _OF_JOB]
        self._paid = sorted(end_ms for end_ms, nano in job.costs.items() if nano > 0)
        self._hours = sorted(job.costs)
        self._costs = [0, *accumulate(job.costs[end_ms] for end_ms in self._hours)]
        spans = sorted(
            (each.began_ms, each.ended_ms, each.state) for each in job.attempts if each.began_ms < NEVER_MS
        )
        self._begins = [began_ms for began_ms, *_ in spans]
        self._last: list[tuple[int, int, str]] = []  # of those begun so far, the one that ends last
        for began_ms, ended_ms, state in spans:
            before = self._last[-1:]
            self._last.append(max([*before, (ended_ms, began_ms, state)]))
        self._ends = sorted((each.ended_ms, each.state in DONE) for each in job.attempts)
        self._broken = [
            _LostAttempt(
                job.about.job_id,
                each.ended_ms,
                each.lost_nano,
                min((loop.began_ms for loop in of_job if _names(loop, each.ended_ms)), default=None),
                place,
            )
            for place, each in enumerate(job.attempts)
            if each.state in BROKEN and each.lost_nano
        ]
        steps: list[
            tuple[int, int, int]
        ] = []  # what is lost more from an instant on, and by how many attempts
        for each in job.attempts:
            steps += ((hour_ms - 1, nano, 0) for hour_ms, nano in each.starting)
        for one in self._broken:
            starting = sum(nano for _, nano in job.attempts[one.place].starting)
            steps.append((one.ended_ms, one.lost_nano - starting, 1))
            if one.named_ms is not None:
                steps.append((max(one.ended_ms, one.named_ms), -one.lost_nano, -1))
        steps.sort()
        self._steps = [at_ms for at_ms, *_ in steps]
        self._lost = [0, *accumulate(nano for _, nano, _ in steps)]
        self._counts = [0, *accumulate(count for *_, count in steps)]

    def span(self, job_id: str, at_ms: int) -> RunSpan | None:
        """When the job went on, of what was known at an instant; None: it had not begun."""
        place = bisect_left(self._begins, at_ms)
        if not place:
            return None
        ended_ms, _, state = self._last[place - 1]
        if ended_ms >= at_ms:
            return RunSpan(job_id, self._begins[0], NEVER_MS, "running")
        return RunSpan(job_id, self._begins[0], ended_ms, state)

    def cost_by(self, at_ms: int) -> int:
        """What it had cost by the end of an hour."""
        return self._costs[bisect_right(self._hours, at_ms)]

    def lost_by(self, at_ms: int) -> tuple[int, int]:
        """What it had lost by then, and by how many attempts, without those that an alert about a loop of it named."""
        place = bisect_left(self._steps, at_ms)
        return self._lost[place], self._counts[place]

    def named_by(self, loop: NamedLoop) -> list[_LostAttempt]:
        """The attempts that an alert about a loop of the run names."""
        return [each for each in self._broken if _names(loop, each.ended_ms)]

    def last_paid_ms(self, at_ms: int) -> int:
        """The end of the last hour up to an instant in which it cost anything; 0: none."""
        place = bisect_right(self._paid, at_ms)
        return self._paid[place - 1] if place else 0

    def last_end(self, at_ms: int) -> tuple[int, bool]:
        """When its last attempt before an instant ended, and whether it was completed or cancelled; 0: none did."""
        place = bisect_left(self._ends, (at_ms, False))
        return self._ends[place - 1] if place else (0, False)


def _names(loop: NamedLoop, ended_ms: int) -> bool:
    """Whether an alert names an attempt that broke off then: in the hour before it fired, or while it did."""
    return loop.began_ms - HOUR_MS < ended_ms <= loop.over_ms
