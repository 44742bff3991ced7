"""Finds running jobs that sent neither a heartbeat nor a sample for a long time.

Samples of a job that is billed by its timeline move no curve, so when a silence seems to begin, the job is asked for its
last activity.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from streams.engine.kernels.arrays import BEGINNING_MS
from streams.engine.kernels.episode import SILENT
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook


class Liveness:
    """Finds silences in a book of curves; the facts of the jobs that it returns must be set again."""

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

    def silent(self, jobs: Mapping[str, JobState], first_ms: int, last_ms: int) -> list[JobState]:
        """Return the jobs on whose last activity the ticks in [first, last] depend."""
        found = self._curves.with_fact(SILENT, first_ms, last_ms)
        return [jobs[job_id] for job_id in found if job_id in jobs]

    def drop(self, job_id: str) -> None:
        """Forget a job without a curve."""
        self._unheard.discard(job_id)
