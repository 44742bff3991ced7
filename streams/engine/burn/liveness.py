"""Finds running jobs that sent neither a heartbeat nor a sample for a long time.

Samples of a job that is billed by its timeline move no curve, so when a silence seems to begin, the job is asked for its
last activity.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from streams.engine.kernels.arrays import BEGINNING_MS
from streams.engine.kernels.episode import SILENT
from streams.engine.state.job import JobState
from streams.engine.windows.curves import CurveBook


class Liveness:
    """Maintains the silences in a book of curves; `update` sets the facts of a job again."""

    def __init__(self, curves: CurveBook, update: Callable[[JobState], None]) -> None:
        self._curves = curves
        self._update = update
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

    def mark_changed(self, job: JobState) -> None:
        """Update the silence of a job that changed, even if its curve did not."""
        if job.id in self._unheard and job.heard_ms != BEGINNING_MS:
            self._unheard.discard(job.id)
            self._update(job)

    def refresh(self, jobs: Mapping[str, JobState], first_ms: int, last_ms: int) -> None:
        """Update the silences that the ticks in [first, last] depend on."""
        for job_id in self._curves.with_fact(SILENT, first_ms, last_ms):
            job = jobs.get(job_id)
            if job is not None:
                self._update(job)

    def drop(self, job_id: str) -> None:
        """Forget a job without a curve."""
        self._unheard.discard(job_id)
