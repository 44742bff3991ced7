"""Which jobs are one training run: a run that is submitted again is another job where each submission gets a new id.

Jobs with one `run_id` are; without it, jobs of one owner with the same name but for its running number, submitted from one
directory. Tasks of an array, and what somebody does by hand in a shell, are no such run.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS, NEVER_MS
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.similar_jobs import stem_of
from streams.engine.rules.slow_loops import LEAST_SPAN_MS, hold_ms, is_mostly_lost

_FAILED: Final = ("failed", "superseded")
BROKEN: Final = (*_FAILED, "preempted")
#: After these the run is over, or its owner has seen to it.
DONE: Final = ("completed", "cancelled")
#: Labels of a job that is one of several that were submitted together, or one of a CI system, which tries another commit each time.
_PARTS: Final = ("slurm_array_job_id", "slurm_het_job_id", "ci_job")
#: Names of sessions: what `srun --pty bash` and `salloc` call their jobs.
_SESSIONS: Final = frozenset({"bash", "sh", "zsh", "fish", "csh", "tcsh", "interactive", "jupyter"})


class RunJob(NamedTuple):
    """What tells the run of a job."""

    job_id: str
    owner: str = ""
    team: str = ""
    project: str = ""
    experiment: str = ""
    run_id: str = ""
    work_dir: str = ""
    labels: tuple[tuple[str, str], ...] = ()


def run_job(row: Mapping[str, Any]) -> RunJob:
    """What tells the run of the job of a row of `jobs`."""
    about = {name: row[name] for name in RunJob._fields}
    return RunJob(**{**about, "labels": tuple(dict(row["labels"]).items())})


class RunKey(NamedTuple):
    """What jobs of one run have in common. `name` and `experiment` are without their running numbers."""

    owner: str
    team: str
    run_id: str
    name: str
    experiment: str
    work_dir: str

    @property
    def is_declared(self) -> bool:
        """Whether an event says what belongs together, more than a name does."""
        return bool(self.run_id or self.work_dir)

    @property
    def shown(self) -> str:
        """What people call it."""
        return self.run_id or self.name or self.experiment


class RunAttempt(NamedTuple):
    """An attempt of a job; `ended_ms` is NEVER_MS while it goes on."""

    job_id: str
    attempt: int
    began_ms: int
    ended_ms: int
    state: str
    reason: str = ""

    @property
    def is_failed(self) -> bool:
        """Whether it failed, or was superseded without an end; else it was preempted, if it broke off at all."""
        return self.state in _FAILED


class LoopLimits(NamedTuple):
    """From how many attempts on that broke off one after another it is a loop."""

    failures: int
    dear_failures: int  # that lost so much
    lost_nano: int
    preemptions: int
    slow_ms: int  # within which two that failed in a row are one, too, if they lost so much per hour
    slow_nano_per_hour: int


class RunLoss(NamedTuple):
    """What an attempt lost, and what it cost in all, in nano-dollars."""

    lost_nano: int = 0
    cost_nano: int = 0


class RunLoop(NamedTuple):
    """Attempts of several jobs that broke off one after another; it holds in [begin_ms, until_ms)."""

    begin_ms: int
    until_ms: int
    attempts: tuple[RunAttempt, ...]

    @property
    def jobs(self) -> list[str]:
        """The jobs, in the order of their failures."""
        return [*dict.fromkeys(each.job_id for each in self.attempts)]


def run_key(job: RunJob) -> RunKey | None:
    """What the job's run is known by; None: it is of no run but its own."""
    labels = dict(job.labels)
    name, experiment = _template(job.job_id), stem_of(job.experiment) or job.experiment
    is_part = any(labels.get(each) for each in _PARTS)
    is_session = is_interactive(labels) or {name, experiment} & _SESSIONS
    if is_part or is_session:
        return None
    if job.run_id:
        return RunKey(job.owner, job.team, job.run_id, "", "", "")
    if not job.owner or not (name or experiment):
        return None
    return RunKey(job.owner, job.team, "", name, experiment, job.work_dir)


def _template(job_id: str) -> str:
    """The name without its running number; '' of an id that is a number: then its experiment is its name, as of Slurm's jobs."""
    stem = stem_of(job_id.rsplit("/", 1)[-1])
    return "" if stem.isdigit() else stem


def run_loops(
    attempts: Iterable[RunAttempt], limits: LoopLimits, loss: Callable[[RunAttempt], RunLoss]
) -> list[RunLoop]:
    """Where attempts of a run are a loop: so many of several jobs broke off one after another, within an hour.

    None of them overlaps with an attempt of another job, else these are trials that run side by side; none was completed or
    cancelled between them. What reached its time limit has not failed. A loop holds for an hour after the last of them, or
    until one is completed or cancelled. Two that failed hours apart are one that is slow if they lost much per hour, and half of
    what they cost; it holds for half as long again as lies between them.
    """
    known = sorted(attempts, key=lambda each: (each.began_ms, each.ended_ms, each.job_id, each.attempt))
    apart = _apart(known)
    done = sorted(each.ended_ms for each in known if each.state in DONE)
    found = []
    for is_failed in (True, False):
        broken = sorted(
            (each for each in known if each.state in BROKEN and each.is_failed == is_failed),
            key=lambda each: (each.ended_ms, each.job_id, each.attempt),
        )
        for place in range(len(broken)):
            alike, holds_ms = _alike(broken, place, apart, done, HOUR_MS), HOUR_MS
            if not _is_loop(alike, limits, loss):
                alike = _alike(broken, place, apart, done, limits.slow_ms)[-2:]
                holds_ms = hold_ms(alike[-1].ended_ms - alike[0].ended_ms) if alike else 0
                if not _is_slow(alike, limits, loss):
                    continue
            begin_ms = alike[-1].ended_ms
            over = bisect_left(done, begin_ms)
            until_ms = min(begin_ms + holds_ms, done[over] if over < len(done) else NEVER_MS)
            found.append(RunLoop(begin_ms, until_ms, tuple(alike)))
    return sorted(found)


def lost_per_hour(alike: Sequence[RunAttempt], loss: Callable[[RunAttempt], RunLoss]) -> int:
    """What attempts lost, in nano-dollars per hour since the first of them began; of a quarter of an hour at least."""
    length_ms = max(alike[-1].ended_ms - alike[0].began_ms, LEAST_SPAN_MS)
    return sum(loss(each).lost_nano for each in alike) * HOUR_MS // length_ms


def _is_slow(alike: Sequence[RunAttempt], limits: LoopLimits, loss: Callable[[RunAttempt], RunLoss]) -> bool:
    if len({each.job_id for each in alike}) < 2 or not alike[-1].is_failed:
        return False
    if (
        alike[-1].ended_ms - alike[0].ended_ms < HOUR_MS
        or lost_per_hour(alike, loss) < limits.slow_nano_per_hour
    ):
        return False
    losses = [loss(each) for each in alike]
    return is_mostly_lost(sum(each.lost_nano for each in losses), sum(each.cost_nano for each in losses))


def _is_loop(alike: Sequence[RunAttempt], limits: LoopLimits, loss: Callable[[RunAttempt], RunLoss]) -> bool:
    if len({each.job_id for each in alike}) < 2:
        return False
    if not alike[-1].is_failed:
        return len(alike) >= limits.preemptions
    if len(alike) >= limits.failures:
        return True
    return (
        len(alike) >= limits.dear_failures and sum(loss(each).lost_nano for each in alike) >= limits.lost_nano
    )


def _alike(
    broken: Sequence[RunAttempt], place: int, apart: set[RunAttempt], done: Sequence[int], within_ms: int
) -> list[RunAttempt]:
    """Those that broke off one after another up to this one, itself included, in so long up to its end."""
    last = broken[place]
    found: list[RunAttempt] = []
    for before in range(place, -1, -1):
        each = broken[before]
        is_late = each.ended_ms > last.ended_ms - within_ms
        if not is_late or each not in apart or each.reason == "timeout":
            break
        if found and bisect_left(done, each.ended_ms) < bisect_left(done, found[-1].ended_ms + 1):
            break
        found.append(each)
    return found[::-1]


def _apart(known: Sequence[RunAttempt]) -> set[RunAttempt]:
    """Those during which no attempt of another job goes on; they come by their begin."""
    nexts = [NEVER_MS] * len(known)  # when the next attempt of another job begins
    for place in range(len(known) - 2, -1, -1):
        after = known[place + 1]
        nexts[place] = nexts[place + 1] if after.job_id == known[place].job_id else after.began_ms
    found = set()
    latest: list[tuple[int, str]] = []  # the latest ends so far, of two jobs
    for each, next_ms in zip(known, nexts, strict=True):
        before_ms = max((end_ms for end_ms, job_id in latest if job_id != each.job_id), default=0)
        if before_ms <= each.began_ms and each.ended_ms <= next_ms:
            found.add(each)
        ends = {job_id: end_ms for end_ms, job_id in latest}
        ends[each.job_id] = max(ends.get(each.job_id, 0), each.ended_ms)
        latest = sorted(((end_ms, job_id) for job_id, end_ms in ends.items()), reverse=True)[:2]
    return found


def reasons_of(attempts: Iterable[RunAttempt]) -> list[tuple[str, int]]:
    """Why they broke off, and how often, the commonest first."""
    return Counter(each.reason or "unknown" for each in attempts).most_common()


class RunSpan(NamedTuple):
    """When a job went on, and how it ended; `ended_ms` is NEVER_MS while it goes on."""

    job_id: str
    began_ms: int
    ended_ms: int
    state: str


def runs_of(spans: Iterable[RunSpan], *, is_declared: bool) -> list[list[str]]:
    """Which jobs are one run, of all with one key; runs and jobs in the order of their begins.

    After a job that was completed another run begins. Of jobs that a name alone makes one (`is_declared` is false), each begins
    within a day after the one before has failed or was preempted, and goes on at no time with another.
    """
    runs: list[list[RunSpan]] = []
    latest_ms = 0
    known = sorted(spans, key=lambda each: (each.began_ms, each.ended_ms, each.job_id))
    was_alone = False
    for number, each in enumerate(known, 1):
        next_ms = known[number].began_ms if number < len(known) else NEVER_MS
        is_alone = latest_ms <= each.began_ms and each.ended_ms <= next_ms
        if runs and _goes_on(
            max(runs[-1], key=_end), each, is_declared=is_declared, alone=was_alone and is_alone
        ):
            runs[-1].append(each)
        else:
            runs.append([each])
        latest_ms, was_alone = max(latest_ms, each.ended_ms), is_alone
    return [[each.job_id for each in run] for run in runs]


def jobs_of_run(job_id: str, spans: Iterable[RunSpan], *, is_declared: bool) -> list[str]:
    """The jobs that are one run with this one, itself included, of all with its key."""
    return next((run for run in runs_of(spans, is_declared=is_declared) if job_id in run), [])


def _end(span: RunSpan) -> int:
    return span.ended_ms


def _goes_on(before: RunSpan, each: RunSpan, *, is_declared: bool, alone: bool) -> bool:
    """Whether a job goes on with the run of the one before; `alone`: neither goes on at one time with another."""
    if is_declared:
        return before.state != "completed" or each.began_ms < before.ended_ms
    return alone and before.state in BROKEN and each.began_ms - before.ended_ms <= DAY_MS
