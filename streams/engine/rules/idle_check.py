"""Checks jobs for idle GPUs (rule `idle_gpus`): which of them are idle at the ticks at which it is their turn.

A job is due every 5 min, at its turn. The blocks end 2 min before: samples come late. Sums are those of the coverage.
Productive time only grows, so a job whose newest block already reaches its threshold is skipped until these samples leave
it, or until it gets more GPUs. For the same reason that may be found out shortly before the tick.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.coverage.coverage import Coverage, JobMinutes, RecentUsage
from streams.engine.kernels.arrays import I64
from streams.engine.kernels.burn import TURN_MS
from streams.engine.kernels.episode import IDLE_GPUS, TICK_MS, UNSEEN
from streams.engine.rules.held import held_spans
from streams.engine.rules.idle_gpus import (
    BLOCK_MINUTES,
    BLOCKS_AT_MOST,
    FALLEN_RATIO,
    LAG_MINUTES,
    LOOKBACK_MINUTES,
    SPINNING_FROM_RATIO,
    UNBROKEN_RATIO,
    UNBROKEN_WITHIN_MS,
    WORKED_MINUTES,
    WORKED_RATIO,
    has_fallen,
    is_long,
    is_unused,
)
from streams.engine.rules.interactive import is_interactive
from streams.engine.rules.job_view import Fallen, IdleSince, IdleUse, Unused
from streams.engine.rules.profiles import Profile, Profiles
from streams.engine.rules.rule import PAGE_FROM
from streams.engine.rules.turns import TURNS, turn_at, turn_of
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.windows.curves import CurveBook

_MINUTES_BETWEEN_TURNS: Final = TURN_MS // MINUTE_MS
#: A productive job is checked again after so many turns at most. Which one it is depends on the job, so that jobs that
#: started together are not all checked together.
_TURNS_BETWEEN_CHECKS: Final = 2
#: Of so few jobs it is cheaper to ask each whether it was ever sampled than to look for those whose turn it is.
_FEW_JOBS: Final = 64
_NOTHING: Final = np.zeros(0, np.int64)
_NO_USAGE: Final = RecentUsage(_NOTHING, _NOTHING, _NOTHING)


class IdleJob(NamedTuple):
    """A tick (its index) and the slot of a job whose GPUs are idle then."""

    tick: int
    slot: int


class IdleGpus:
    """Checks the jobs whose turn it is."""

    def __init__(self) -> None:
        # Of the jobs that were idle at a tick of the last call, which may have several turns of one.
        self._uses: dict[tuple[str, int], IdleUse] = {}

    def use(self, job_id: str, at_ms: int) -> IdleUse | None:
        """Return the figures of the check at a tick of the last call, if the job was idle then."""
        return self._uses.get((job_id, at_ms))

    def find(
        self,
        curves: CurveBook,
        jobs: Mapping[str, JobState],
        coverage: Coverage,
        times_ms: Sequence[int] | I64,
        profiles: Profiles,
    ) -> list[IdleJob]:
        """Return the jobs that are idle at the ticks at which it is their turn."""
        found: list[IdleJob] = []
        self._uses = {}
        ids = curves.job_ids
        # Over many ticks, or of a few jobs, most checks would find no sample at all: a log may have none, and a replay has
        # millions of ticks.
        ticks = np.asarray(times_ms, np.int64)
        checked: Sequence[int] = range(len(ticks))
        if len(ticks) > TURNS or len(ids) <= _FEW_JOBS:
            sampled = coverage.sampled(ids)
            if not sampled:
                return found
            is_turn = np.zeros(TURNS, np.bool_)
            is_turn[[turn_of(job_id) for job_id in sampled]] = True
            checked = np.flatnonzero(is_turn[ticks // TICK_MS % TURNS]).tolist()
        for tick in checked:
            at_ms = int(ticks[tick])
            found += self._resting(curves, jobs, coverage, (tick, at_ms), profiles)
            slots, usage = self.note_productive(curves, coverage, at_ms, profiles)
            if not len(slots):
                continue
            limits = profiles.limits.idle_ratio[curves.profiles(slots)]
            is_less = usage.productive_ms < limits * usage.sampled_ms
            idle = slots[(usage.sampled_ms > 0) & is_less]
            if not len(idle):
                continue
            numbers = curves.profiles(idle).tolist()
            blocks = max(_wait_blocks(profiles[number], interactive=False) for number in {*numbers})
            names = [ids[slot] for slot in idle.tolist()]
            sums = coverage.block_usage(names, _until_minute(at_ms), BLOCK_MINUTES, blocks)
            for slot, name, number, of_job in zip(idle.tolist(), names, numbers, sums, strict=True):
                job = jobs.get(name)
                if job is None:
                    continue
                use = _use(curves, coverage, job, at_ms, profiles[number], of_job)
                if (name, at_ms) not in self._uses and _is_idle(use, profiles[number]):
                    self._uses[name, at_ms] = use
                    found.append(IdleJob(tick, slot))
        return found

    def _resting(
        self,
        curves: CurveBook,
        jobs: Mapping[str, JobState],
        coverage: Coverage,
        tick: tuple[int, int],
        profiles: Profiles,
    ) -> Iterator[IdleJob]:
        """Yield the jobs whose turn is the tick (its index, its instant) of which single GPUs are unused."""
        at_ms = tick[1]
        least = min(profiles[number].threshold(IDLE_GPUS, "gpu_minutes") for number in range(len(profiles)))
        for job_id in coverage.jobs_with_rest(_until_minute(at_ms) * 60, round(least * 60)):
            job = jobs.get(job_id)
            if job is None or job_id not in curves or turn_of(job_id) != turn_at(at_ms):
                continue
            slot = curves.slot(job_id)
            profile = profiles[int(curves.profiles(np.array([slot]))[0])]
            use = self.use_of(curves, coverage, job, at_ms, profile)
            if use is not None and _is_idle(use, profile):
                self._uses[job_id, at_ms] = use
                yield IdleJob(tick[0], slot)

    @staticmethod
    def note_productive(
        curves: CurveBook, coverage: Coverage, at_ms: int, profiles: Profiles
    ) -> tuple[I64, RecentUsage]:
        """Note which of the jobs whose turn is the tick `at_ms` are productive enough at it.

        Return the slots ([n] int64) of those of which that was not known before, and the usage of their GPUs.
        """
        curves.forget_noted(coverage.drain_with_new_gpus())
        hi = _until_minute(at_ms)
        lo = hi - BLOCK_MINUTES
        slots = curves.in_turn(turn_at(at_ms), at_ms, BLOCK_MINUTES * MINUTE_MS)
        if not len(slots):
            return slots, _NO_USAGE
        slots = slots[~curves.are_noted(slots, lo, profiles.limits.idle_ratio[curves.profiles(slots)])]
        if not len(slots):
            return slots, _NO_USAGE
        limits = profiles.limits.idle_ratio[curves.profiles(slots)]
        ids = curves.job_ids
        usage = coverage.recent_usage([ids[slot] for slot in slots.tolist()], lo, hi, limits)
        is_enough = usage.enough_since_minute < hi
        busy = slots[is_enough]
        skipped_turns = -(lo // _MINUTES_BETWEEN_TURNS + 1 + busy) % _TURNS_BETWEEN_CHECKS
        since = np.minimum(usage.enough_since_minute[is_enough], lo + skipped_turns * _MINUTES_BETWEEN_TURNS)
        curves.note_productive(busy, since, limits[is_enough])
        return slots, usage

    @staticmethod
    def use_of(
        curves: CurveBook, coverage: Coverage, job: JobState, at_ms: int, profile: Profile
    ) -> IdleUse | None:
        """Return the figures of a check of a job at an instant, whether or not it is idle then; None: it has ended."""
        if not curves.has_not_ended(job.id, at_ms):
            return None
        blocks = _wait_blocks(profile, interactive=_is_interactive(job))
        (sums,) = coverage.block_usage([job.id], _until_minute(at_ms), BLOCK_MINUTES, blocks)
        return _use(curves, coverage, job, at_ms, profile, sums)


def _is_interactive(job: JobState) -> bool:
    return is_interactive(dict(job.dimensions().labels or ()))


def _wait_blocks(profile: Profile, *, interactive: bool) -> int:
    name = "interactive_minutes" if interactive else "minutes"
    return ceil(profile.threshold(IDLE_GPUS, name) / BLOCK_MINUTES)


def _use(
    curves: CurveBook, coverage: Coverage, job: JobState, at_ms: int, profile: Profile, sums: I64
) -> IdleUse:
    """The figures of a check; `sums` ([blocks, 2]) are those of the newest blocks."""
    thresholds = profile.thresholds(IDLE_GPUS)
    ratio, least_nano = thresholds["productive_ratio"], round(thresholds["least_usd"] * NANO_PER_USD)
    wait = _wait_blocks(profile, interactive=_is_interactive(job))
    until = _until_minute(at_ms)
    paid_ms = until * MINUTE_MS - _works_since_ms(curves, job, until * MINUTE_MS)
    paid = min(paid_ms // (BLOCK_MINUTES * MINUTE_MS), BLOCKS_AT_MOST)
    idle = _idle_blocks(sums, ratio, paid)
    if idle == len(sums):
        # How many were asked for depends on the jobs that were checked together; a phase ends where this one began.
        (sums,) = coverage.block_usage([job.id], until, BLOCK_MINUTES, BLOCKS_AT_MOST)
        idle = _idle_blocks(sums, ratio, paid)
    longest = _longest_phase(coverage, job, until, idle * BLOCK_MINUTES, ratio) if idle >= wait else 0
    sampled_ms, productive_ms = sums[:wait].sum(axis=0).tolist()
    from_ms = (until - wait * BLOCK_MINUTES) * MINUTE_MS
    use = IdleUse(
        at_ms=at_ms,
        minutes=idle * BLOCK_MINUTES,
        wait_minutes=wait * BLOCK_MINUTES,
        idle_nano=_idle_nano(curves, job.id, until, sums[:idle]),
        sampled_ms=sampled_ms,
        productive_ms=productive_ms,
        held_ms=_held_ms(job, from_ms, until * MINUTE_MS),
        longest_before=longest,
    )
    if is_long(use, least_nano):
        return use
    if idle and not _is_interactive(job):
        use = use._replace(fallen=_fallen(curves, coverage, job, until, ratio, thresholds[PAGE_FROM]))
        if _has_fallen(use, profile):
            return use
    return use._replace(unused=_unused(curves, coverage, job, until, thresholds["gpu_minutes"]))


def _unused(
    curves: CurveBook, coverage: Coverage, job: JobState, until: int, least_minutes: float
) -> Unused | None:
    """The GPUs that do nothing while others work; None: there are none for so long, or the job was not paid for so long."""
    found = coverage.unused_of(job.id, until * 60, round(least_minutes * 60))
    if found is None:
        return None
    until_ms = until * MINUTE_MS
    since_ms = max(found.since_s * 1000, _works_since_ms(curves, job, until_ms))
    from_ms = max(since_ms, until_ms - BLOCKS_AT_MOST * BLOCK_MINUTES * MINUTE_MS)
    cost = curves.accrued(job.id, from_ms, until_ms)
    idle_nano = round(cost * len(found.gpus) / found.sampled)
    return Unused(found.gpus, found.sampled, (until_ms - since_ms) // MINUTE_MS, idle_nano)


def _works_since_ms(curves: CurveBook, job: JobState, until_ms: int) -> int:
    """Since when a job is paid and runs: GPUs that it holds before, or while it is suspended, are asked for nothing, and `held` is about them."""
    since_ms = curves.paid_since_ms(job.id, until_ms)
    for line in job.timelines().values():
        for from_ms, end_ms in held_spans(line):
            if from_ms < until_ms:
                since_ms = max(since_ms, min(end_ms, until_ms))
    return since_ms


def _longest_phase(coverage: Coverage, job: JobState, until: int, minutes: int, ratio: float) -> int:
    """For how long the GPUs of a job idled between times of work, before they have for so many minutes."""
    usage = coverage.job_minutes(job.id, until - LOOKBACK_MINUTES, until - minutes)
    sampled_ms, productive_ms = usage.sampled_ms.sum(axis=0), usage.productive_ms.sum(axis=0)
    return _longest_between(_while_running(job, sampled_ms, until - LOOKBACK_MINUTES), productive_ms, ratio)


def _while_running(job: JobState, sampled_ms: I64, first_minute: int) -> I64:
    """What was sampled in each minute from one on; nothing in those in which the job held its GPUs and did not run."""
    asked_ms = sampled_ms.copy()
    for line in job.timelines().values():
        for from_ms, end_ms in held_spans(line):
            lo, hi = (max(at - first_minute, 0) for at in (from_ms // MINUTE_MS, -(-end_ms // MINUTE_MS)))
            asked_ms[lo:hi] = 0
    return asked_ms


def _idle_blocks(sums: I64, ratio: float, paid: int) -> int:
    """How many of the newest blocks are idle and paid, one after another."""
    is_idle = (sums[:, 0] > 0) & (sums[:, 1] < ratio * sums[:, 0])
    busy = np.flatnonzero(~is_idle)
    blocks = int(busy[0]) if len(busy) else len(sums)
    return min(blocks, paid)


def _idle_nano(curves: CurveBook, job_id: str, until_minute: int, sums: I64) -> int:
    """What was paid for the idle part of the GPUs' time in these blocks."""
    sampled_ms, productive_ms = sums.sum(axis=0).tolist()
    if not sampled_ms:
        return 0
    from_ms = (until_minute - len(sums) * BLOCK_MINUTES) * MINUTE_MS
    cost = curves.accrued(job_id, from_ms, until_minute * MINUTE_MS)
    idle_nano: int = round(cost * (sampled_ms - productive_ms) / sampled_ms)
    return idle_nano


def _fallen(
    curves: CurveBook, coverage: Coverage, job: JobState, until: int, ratio: float, page_usd: float
) -> Fallen | None:
    """How all GPUs of a job fell to nothing; None: they did not, or it pays too little."""
    until_ms = until * MINUTE_MS
    cost = curves.accrued(job.id, until_ms - BLOCK_MINUTES * MINUTE_MS, until_ms)
    nano_per_hour = round(cost * HOUR_MS / (BLOCK_MINUTES * MINUTE_MS))
    if nano_per_hour < round(page_usd * NANO_PER_USD):
        return None
    usage = coverage.job_minutes(job.id, until - LOOKBACK_MINUTES, until)
    sampled_ms, productive_ms = usage.sampled_ms.sum(axis=0), usage.productive_ms.sum(axis=0)
    # Ranks that wait for one that is gone are busy and do nothing. Where all are, `spinning` tells of it.
    are_some = productive_ms < SPINNING_FROM_RATIO * sampled_ms
    by_node = np.where(are_some, usage.at_work_ms, usage.productive_ms)
    waits = _waits(usage, ratio)
    by_node[:, waits] = 0
    productive_ms = by_node.sum(axis=0)
    # The first whole minute in which it ran: what it did before it was last begun is no work of this run.
    first_minute = until - LOOKBACK_MINUTES
    ran = max(-(-_works_since_ms(curves, job, until_ms) // MINUTE_MS) - first_minute, 0)
    quiet = _first_of_run(sampled_ms[ran:], productive_ms[ran:], FALLEN_RATIO)
    if quiet is None:
        return None
    begin = ran + quiet
    from_ms = (first_minute + begin) * MINUTE_MS
    before = slice(max(begin - WORKED_MINUTES, ran), begin)
    of_node = usage.sampled_ms[:, begin:].sum(axis=1), by_node[:, begin:].sum(axis=1)
    worked, sampled = int(productive_ms[before].sum()), int(sampled_ms[before].sum())
    # Where all worked without a break, one that does so says nothing.
    most = UNBROKEN_RATIO if waits[begin:].any() else 1
    return Fallen(
        minutes=LOOKBACK_MINUTES - begin,
        worked_before=sampled > 0 and WORKED_RATIO * sampled <= worked <= most * sampled,
        since_start=not sampled_ms[ran:begin].any(),
        on_all_nodes=bool((of_node[1] <= FALLEN_RATIO * of_node[0]).all()),
        longest_before=_longest_between(
            _while_running(job, sampled_ms, first_minute)[:begin], productive_ms[:begin], ratio
        ),
        sampled_ms=int(sampled_ms[begin:].sum()),
        held_ms=_held_ms(job, from_ms, until_ms),
        nano_per_hour=nano_per_hour,
    )


def _waits(usage: JobMinutes, ratio: float) -> NDArray[np.bool_]:
    """The minutes in which one GPU is busy without a break and all others do nothing, and no more is known of them.

    A rank that waits for another one looks so, and work hardly ever does.
    """
    sampled_ms, productive_ms = usage.sampled_ms.sum(axis=0), usage.productive_ms.sum(axis=0)
    is_one = np.abs(productive_ms - MINUTE_MS) <= UNBROKEN_WITHIN_MS
    is_one &= productive_ms < ratio * sampled_ms
    return np.asarray(is_one & (usage.sm_sampled_ms.sum(axis=0) == 0))


def _first_of_run(sampled_ms: I64, productive_ms: I64, ratio: float) -> int | None:
    """The first sampled minute since which none reached the ratio; None: there is none."""
    over = np.flatnonzero((sampled_ms > 0) & (productive_ms >= ratio * sampled_ms))
    after = int(over[-1]) + 1 if len(over) else 0
    sampled = np.flatnonzero(sampled_ms[after:] > 0)
    return after + int(sampled[0]) if len(sampled) else None


def _longest_between(sampled_ms: I64, productive_ms: I64, ratio: float) -> int:
    """The most minutes that were sampled between two of work, which reach the ratio, one after another."""
    busy = np.flatnonzero((sampled_ms > 0) & (productive_ms >= ratio * sampled_ms))
    sampled = np.cumsum(sampled_ms > 0)
    return int(np.diff(sampled[busy]).max() - 1) if len(busy) > 1 else 0


def idle_since(coverage: Coverage, job: JobState, at_ms: int, ratio: float) -> IdleSince | None:
    """Since when the GPUs of a job idle, as far as its minutes of some hours say; None: they do not."""
    until = _until_minute(at_ms)
    usage = coverage.job_minutes(job.id, until - LOOKBACK_MINUTES, until)
    sampled_ms, productive_ms = usage.sampled_ms.sum(axis=0), usage.productive_ms.sum(axis=0)
    newest = np.flatnonzero(sampled_ms > 0)
    begin = _first_of_run(sampled_ms, productive_ms, ratio)
    if begin is None:
        return None
    last = int(newest[-1])
    fallen = _first_of_run(sampled_ms, productive_ms, FALLEN_RATIO)
    if fallen is not None and fallen - begin < BLOCK_MINUTES:
        begin = fallen  # the minute in which they fell, and what was left of the work
    total_ms = int(sampled_ms[begin:].sum())
    return IdleSince(
        since_ms=(until - LOOKBACK_MINUTES + begin) * MINUTE_MS,
        gpu_milli=1000 * -int(-sampled_ms[last] // MINUTE_MS),
        productive_ratio=int(productive_ms[begin:].sum()) / total_ms,
        memory_mib=int(usage.memory_mib[:, last].max()),
        is_first=begin > 0,
    )


def _is_idle(use: IdleUse, profile: Profile) -> bool:
    """Whether the rule holds."""
    of = profile.thresholds(IDLE_GPUS)
    least_nano = round(of["least_usd"] * NANO_PER_USD)
    if is_long(use, least_nano) or _has_fallen(use, profile):
        return True
    return is_unused(use.unused, of["gpu_minutes"], least_nano)


def _has_fallen(use: IdleUse, profile: Profile) -> bool:
    of = profile.thresholds(IDLE_GPUS)
    return has_fallen(use.fallen, of)


def _held_ms(job: JobState, from_ms: int, until_ms: int) -> int:
    """Return the GPU-time that a job held by its events, in thousandths of a GPU and ms."""
    return sum(
        segment.values.gpu_milli * max(min(segment.end_ms, until_ms) - max(segment.start_ms, from_ms), 0)
        for line in job.timelines().values()
        for segment in line.paid(OPEN_MS)
    )


def _until_minute(at_ms: int) -> int:
    """The minute at which the newest block of an instant ends."""
    return at_ms // MINUTE_MS - LAG_MINUTES


def mark_idle(facts: I64, times_ms: I64, turns: I64, found: Sequence[IdleJob]) -> None:
    """Enter the fact into `facts` ([tick, job]), in place; at other ticks than its turn a job was not checked."""
    is_other = (times_ms // TICK_MS % TURNS)[:, None] != turns[None, :]
    np.bitwise_or(facts, np.int64(1) << (IDLE_GPUS + UNSEEN), out=facts, where=is_other)
    for tick, slot in found:
        facts[tick, slot] |= np.int64(1) << IDLE_GPUS
