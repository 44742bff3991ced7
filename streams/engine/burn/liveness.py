"""Finds running jobs that sent neither a heartbeat nor a sample for a long time.

A sample does not change the curve of a job that accrues cost by its timeline, so the stored start of a silence may be out of
date. It is corrected when it falls due, and before that at the turns of the job: otherwise those of all jobs would be
corrected at one tick after a restart.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from schemas.durations import BEGINNING_MS
from streams.engine.kernels.episode import SILENT
from streams.engine.rules.profiles import Profiles
from streams.engine.rules.turns import turn_at
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook


class Liveness:
    """Finds silences in a book of curves."""

    def __init__(self, curves: CurveBook) -> None:
        self._curves = curves
        self._unheard: set[str] = set()  # jobs with a curve and no activity yet

    def unheard(self, job_ids: Iterable[str]) -> set[str]:
        """Return those of these jobs for which an activity now is the first."""
        return self._unheard.intersection(job_ids) if self._unheard else set()

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
        silent_ms = profiles.limits.silent_ms[self._curves.profiles(slots[known])]
        self._curves.postpone(rows[known], heard_ms[known] + silent_ms)
        heard = [found[place] for place in np.flatnonzero(known).tolist()] if self._unheard else []
        return [job for job in heard if job is not None and job.id in self._unheard]

    def drop(self, job_id: str) -> None:
        """Forget a job without a curve."""
        self._unheard.discard(job_id)
