"""Checks jobs for idle GPUs (rule `idle_gpus`): which of them are idle at the ticks at which it is their turn.

A job is due every 5 min, at its turn. The window ends 2 min before: samples come late. Sums are those of the coverage.
Productive time only grows, so a job that already reaches its threshold is skipped until these samples leave the window,
for 25 min at most, or until it gets more GPUs. For the same reason that may be found out shortly before the tick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np

from schemas.durations import MINUTE_MS
from streams.engine.coverage.coverage import Coverage, RecentUsage
from streams.engine.kernels.arrays import I64
from streams.engine.kernels.burn import TURN_MS
from streams.engine.kernels.episode import IDLE_GPUS, TICK_MS, UNSEEN
from streams.engine.rules.idle_gpus import COVERED_RATIO, LAG_MINUTES, WINDOW_MINUTES
from streams.engine.rules.job_view import IdleShare
from streams.engine.rules.profiles import Profiles
from streams.engine.rules.turns import TURNS, turn_at, turn_of
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.windows.curves import CurveBook

_MINUTES_BETWEEN_TURNS: Final = TURN_MS // MINUTE_MS
#: A productive job is checked again after so many turns at most. Which one it is depends on the job, so that jobs that
#: started together are not all checked together.
_TURNS_BETWEEN_CHECKS: Final = 5
_NOTHING: Final = np.zeros(0, np.int64)
_NO_USAGE: Final = RecentUsage(_NOTHING, _NOTHING, _NOTHING)


class IdleJob(NamedTuple):
    """A tick (its index) and the slot of a job whose GPUs are idle then."""

    tick: int
    slot: int


class IdleGpus:
    """Checks the jobs whose turn it is."""

    def __init__(self) -> None:
        self._shares: dict[str, IdleShare] = {}  # of the jobs that were idle at their last check

    def share(self, job_id: str, at_ms: int) -> IdleShare | None:
        """Return the figures of the check at an instant, if the job was idle then."""
        share = self._shares.get(job_id)
        return share if share is not None and share.at_ms == at_ms else None

    def drop(self, job_id: str) -> None:
        """Forget a job."""
        self._shares.pop(job_id, None)

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
        ids = curves.job_ids
        # Over many ticks most checks would find no sample at all: a log may have none, and a replay has millions of ticks.
        turns = set(range(TURNS)) if len(times_ms) <= TURNS else set(map(turn_of, coverage.sampled(ids)))
        if not turns:
            return found
        ticks = np.asarray(times_ms, np.int64)
        checked = np.isin(ticks // TICK_MS % TURNS, sorted(turns))
        for tick in np.flatnonzero(checked).tolist():
            at_ms = int(ticks[tick])
            slots, usage = self.note_productive(curves, coverage, at_ms, profiles)
            if not len(slots):
                continue
            lo_ms, hi_ms = (minute * MINUTE_MS for minute in _window(at_ms))
            limits = profiles.limits.idle_ratio[curves.profiles(slots)]
            is_less = usage.productive_ms < limits * usage.sampled_ms
            for place in np.flatnonzero((usage.sampled_ms > 0) & is_less).tolist():
                slot = int(slots[place])
                job_id = ids[slot]
                share = IdleShare(at_ms, int(usage.sampled_ms[place]), int(usage.productive_ms[place]))
                if self._is_idle(curves, jobs.get(job_id), share, lo_ms, hi_ms):
                    self._shares[job_id] = share
                    found.append(IdleJob(tick, slot))
        return found

    @staticmethod
    def note_productive(
        curves: CurveBook, coverage: Coverage, at_ms: int, profiles: Profiles
    ) -> tuple[I64, RecentUsage]:
        """Note which of the jobs whose turn is the tick `at_ms` are productive enough at it.

        Return the slots ([n] int64) of those of which that was not known before, and the usage of their GPUs.
        """
        curves.forget_noted(coverage.drain_with_new_gpus())
        lo, hi = _window(at_ms)
        slots = curves.in_turn(turn_at(at_ms), at_ms, WINDOW_MINUTES * MINUTE_MS)
        if not len(slots):
            return slots, _NO_USAGE
        slots = slots[~curves.are_noted(slots, lo, profiles.limits.idle_ratio[curves.profiles(slots)])]
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
    def _is_idle(
        curves: CurveBook, job: JobState | None, share: IdleShare, from_ms: int, until_ms: int
    ) -> bool:
        """Return whether the job was paid all the time and sampled for most of it."""
        if job is None or not curves.is_paid_throughout(job.id, from_ms, until_ms):
            return False
        return share.sampled_ms * 1000 >= COVERED_RATIO * _held_ms(job, from_ms, until_ms)

    @staticmethod
    def share_of(curves: CurveBook, coverage: Coverage, job: JobState, at_ms: int) -> IdleShare:
        """Return the figures of a check of a job at an instant, whether or not it is idle then."""
        lo, hi = _window(at_ms)
        usage = coverage.recent_usage([job.id], lo, hi, np.array([np.inf]))
        from_ms, until_ms = lo * MINUTE_MS, hi * MINUTE_MS
        return IdleShare(
            at_ms,
            int(usage.sampled_ms[0]),
            int(usage.productive_ms[0]),
            _held_ms(job, from_ms, until_ms),
            curves.has_not_ended(job.id, at_ms) and curves.is_paid_throughout(job.id, from_ms, until_ms),
        )


def _held_ms(job: JobState, from_ms: int, until_ms: int) -> int:
    """Return the GPU-time that a job held by its events, in thousandths of a GPU and ms."""
    return sum(
        segment.values.gpu_milli * max(min(segment.end_ms, until_ms) - max(segment.start_ms, from_ms), 0)
        for line in job.timelines().values()
        for segment in line.paid(OPEN_MS)
    )


def _window(at_ms: int) -> tuple[int, int]:
    """Return the minutes [lo, hi) over which GPUs are judged at an instant."""
    hi = at_ms // MINUTE_MS - LAG_MINUTES
    return hi - WINDOW_MINUTES, hi


def mark_idle(facts: I64, times_ms: I64, turns: I64, found: Sequence[IdleJob]) -> None:
    """Enter the fact into `facts` ([tick, job]), in place; at other ticks than its turn a job was not checked."""
    is_turn = (times_ms // TICK_MS % TURNS)[:, None] == turns[None, :]
    facts[~is_turn] |= np.int64(1) << (IDLE_GPUS + UNSEEN)
    for tick, slot in found:
        facts[tick, slot] |= np.int64(1) << IDLE_GPUS
