"""The rule `unusual_length`: how long a job has run against the p99 of similar completed jobs.

Times are ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, NEVER_MS
from streams.engine.ledger_rules.similar_jobs import Similarity, similarities_of

#: Similar jobs that count: the last ones that were completed so recently.
HISTORY_JOBS: Final = 1_000
HISTORY_MS: Final = 30 * 24 * HOUR_MS


class RunTime(NamedTuple):
    """How long a job has run; `ended_ms` is 0 unless it is completed."""

    job_id: str
    team: str
    experiment: str
    wall_ms: int
    ended_ms: int


class UsualLength(NamedTuple):
    """The p99 of similar jobs: 99 % of the last ones ran for so long at most; of fewer than 100 it is the longest."""

    similarity: Similarity
    p99_ms: int


class Lengths:
    """Completed jobs by similarity, in the order in which they ended."""

    def __init__(self, completed: Iterable[RunTime], hours: Sequence[int], jobs_least: int) -> None:
        """Take what was completed; `hours` are the instants that will be asked for, ascending."""
        self._hours = hours
        self._jobs_least = jobs_least
        self._of: dict[Similarity, list[tuple[int, str, int]]] = {}
        self._known: dict[tuple[Similarity, int, int], tuple[int, int]] = {}
        self._least: dict[Similarity, int] = {}
        for job in completed:
            for similarity in similarities_of(job.job_id, job.team, job.experiment):
                self._of.setdefault(similarity, []).append((job.ended_ms, job.job_id, job.wall_ms))
        for similar in self._of.values():
            similar.sort()

    def usual(self, job: RunTime, at_ms: int) -> UsualLength | None:
        """Return what is usual for the narrowest similarity with enough jobs that were completed before; None: of none."""
        for similarity in similarities_of(job.job_id, job.team, job.experiment):
            jobs, p99_ms = self._p99(similarity, at_ms)
            if jobs >= self._jobs_least:
                return UsualLength(similarity, p99_ms)
        return None

    def may_exceed(self, job: RunTime, factor: float) -> bool:
        """Return False if the job has not run for longer than was usual at any of the instants, for any of its similarities."""
        similarities = similarities_of(job.job_id, job.team, job.experiment)
        return any(
            job.wall_ms > factor * self._least_p99(similarity)
            for similarity in similarities
            if similarity in self._of
        )

    def _least_p99(self, similarity: Similarity) -> int:
        if similarity not in self._least:
            found = [self._p99(similarity, at_ms) for at_ms in self._hours]
            enough = [p99_ms for jobs, p99_ms in found if jobs >= self._jobs_least]
            self._least[similarity] = min(enough, default=NEVER_MS)
        return self._least[similarity]

    def _p99(self, similarity: Similarity, at_ms: int) -> tuple[int, int]:
        """Return how many jobs count, and the p99 of their run times."""
        similar = self._of.get(similarity, [])
        end = bisect_left(similar, (at_ms, "", 0))
        begin = max(bisect_left(similar, (at_ms - HISTORY_MS, "", 0)), end - HISTORY_JOBS)
        # Not by the instant: the same jobs count for many hours.
        known = self._known.get((similarity, begin, end))
        if known is None:
            lengths = sorted(wall_ms for *_, wall_ms in similar[begin:end])
            known = len(lengths), lengths[-(-99 * len(lengths) // 100) - 1] if lengths else 0
            self._known[similarity, begin, end] = known
        return known
