"""Finds running jobs that sent neither a heartbeat nor a sample for a long time.

A sample does not change the curve of a job that accrues cost by its timeline, so the stored start of a silence may be too
early. It is corrected when it falls due, and before that at the turns of the job: otherwise those of all jobs would be
corrected at one tick after a restart. It is too late where a job may be silent for less time than when it was set: after a
sample, or as its heartbeats come more often. Such jobs are found when they change.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

import numpy as np

from schemas.durations import BEGINNING_MS
from streams.engine.kernels.episode import SILENT
from streams.engine.rules.profiles import Profile, Profiles
from streams.engine.rules.silent_job import least_silence_ms, silence_ms
from streams.engine.rules.turns import turn_at
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook


class Liveness:
    """Finds silences in a book of curves."""

    def __init__(self, curves: CurveBook) -> None:
        self._curves = curves
        self._unheard: set[str] = set()  # jobs with a curve and no activity yet
        # How long jobs with rare heartbeats may be silent, by the stored starts of their silences.
        self._waits_ms: dict[str, int] = {}

    def changed_by_samples(self, job_ids: Collection[str]) -> set[str]:
        """Return those of these jobs for which a sample now is the first activity, or may shorten how long they may be silent."""
        found = self._unheard.intersection(job_ids) if self._unheard else set()
        return found | (self._waits_ms.keys() & job_ids) if self._waits_ms else found

    def store_wait(self, job: JobState, profile: Profile) -> None:
        """Record how long the job may be silent by the start of its silence that is stored now."""
        wait_ms, thresholds = 0, profile.thresholds(SILENT)
        if job.heartbeats is not None:
            wait_ms = silence_ms(job, thresholds)
        if wait_ms > least_silence_ms(thresholds):
            self._waits_ms[job.id] = wait_ms
        else:
            self._waits_ms.pop(job.id, None)

    def is_silent_sooner(self, job: JobState, profile: Profile) -> bool:
        """Return whether the job may be silent for less time than by the stored start of its silence."""
        wait_ms = self._waits_ms.get(job.id)
        return wait_ms is not None and silence_ms(job, profile.thresholds(SILENT)) < wait_ms

    def track(self, job: JobState) -> None:
        """Record that the job has a curve."""
        if job.heard_ms == BEGINNING_MS:
            self._unheard.add(job.id)
        else:
            self._unheard.discard(job.id)

    def is_heard_first(self, job: JobState) -> bool:
        """Return whether a job that changed was heard for the first time, even if its curve is the same."""
        if job.id not in self._unheard or job.heard_ms == BEGINNING_MS:
            return False
        self._unheard.discard(job.id)
        return True

    def postpone(
        self, jobs: Mapping[str, JobState], profiles: Profiles, first_ms: int, last_ms: int
    ) -> list[JobState]:
        """Move the silences that seem to hold in [first, last] behind the last activity of their jobs.

        Return those whose first activity was not seen yet: their facts must be set again.
        """
        slots, rows = self._curves.with_fact(SILENT, first_ms, last_ms, turn_at(first_ms))
        if not len(slots):
            return []
        ids = self._curves.job_ids
        found = [jobs.get(ids[slot]) for slot in slots.tolist()]
        heard_ms = np.array([BEGINNING_MS if job is None else job.heard_ms for job in found], np.int64)
        known = heard_ms > BEGINNING_MS
        numbers = self._curves.profiles(slots)
        silent_ms = profiles.limits.silent_ms[numbers]
        for place, job in enumerate(found):
            if job is not None and job.heartbeats is not None and job.heartbeats.newest_ms >= heard_ms[place]:
                profile = profiles[int(numbers[place])]
                silent_ms[place] = silence_ms(job, profile.thresholds(SILENT))
                self.store_wait(job, profile)
        self._curves.postpone(rows[known], heard_ms[known] + silent_ms[known])
        heard = [found[place] for place in np.flatnonzero(known).tolist()] if self._unheard else []
        return [job for job in heard if job is not None and job.id in self._unheard]

    def drop(self, job_id: str) -> None:
        """Forget a job without a curve."""
        self._unheard.discard(job_id)
        self._waits_ms.pop(job_id, None)
