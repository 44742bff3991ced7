"""Finds running jobs that sent neither a heartbeat nor a sample for a long time.

Samples of a job that its timeline pays for move no curve, so a lapse is looked up when it seems to have come: then the
job says when it was heard of last.
"""

from __future__ import annotations

from collections.abc import Mapping

from streams.engine.kernels.arrays import BEGINNING_MS
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import LAPSES_AFTER_MS, lapse
from streams.engine.windows.curves import CurveBook


class Liveness:
    """Keeps the lapses in a book of curves right."""

    def __init__(self, curves: CurveBook) -> None:
        self._curves = curves
        self._unheard: set[str] = set()  # jobs with a curve that were never heard of

    def is_first(self, job_id: str) -> bool:
        """Whether what is heard of the job now is the first."""
        return job_id in self._unheard

    def track(self, job: JobState) -> None:
        """The job has a curve, with its lapse as of now."""
        if job.heard_ms == BEGINNING_MS:
            self._unheard.add(job.id)
        else:
            self._unheard.discard(job.id)

    def mark_changed(self, job: JobState) -> None:
        """Something of the job changed; its curve may stay."""
        if job.id in self._unheard and job.heard_ms != BEGINNING_MS:
            self._unheard.discard(job.id)
            self._curves.set_lapse(job.id, lapse(job, job.timelines()))

    def refresh(self, jobs: Mapping[str, JobState], first_ms: int, last_ms: int) -> None:
        """Bring up to date what the ticks in [first, last] ask for."""
        for job_id, from_ms in self._curves.lapsed_between(first_ms, last_ms):
            job = jobs.get(job_id)
            if job is not None and job.heard_ms + LAPSES_AFTER_MS > from_ms:
                self._curves.set_lapse(job_id, lapse(job, job.timelines()))

    def drop(self, job_id: str) -> None:
        """The job has no curve any more."""
        self._unheard.discard(job_id)
