"""The rule `unusual_length`: how long a job has run against the p99 of the completed jobs of its kind.

It must not read anything: run times are handed in. Times are ms.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from streams.engine.kernels.arrays import NEVER_MS
from streams.engine.ledger_rules.fleet_rules import HOUR_MS
from streams.engine.ledger_rules.job_kinds import JobKind, kinds_of

#: Jobs of its kind that count: the last ones that were completed so recently.
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
    """The p99 of a kind: 99 % of its last jobs ran for so long at most; of fewer than 100 it is the longest."""

    kind: JobKind
    p99_ms: int


class Lengths:
    """Completed jobs by kind, in the order in which they ended."""

    def __init__(self, completed: Iterable[RunTime], hours: Sequence[int], jobs_least: int) -> None:
        """Take what was completed; `hours` are the instants that will be asked for, ascending."""
        self._hours = hours
        self._jobs_least = jobs_least
        self._of: dict[JobKind, list[tuple[int, str, int]]] = {}
        self._known: dict[tuple[JobKind, int], tuple[int, int]] = {}
        self._least: dict[JobKind, int] = {}
        for job in completed:
            for kind in kinds_of(job.job_id, job.team, job.experiment):
                self._of.setdefault(kind, []).append((job.ended_ms, job.job_id, job.wall_ms))
        for of_kind in self._of.values():
            of_kind.sort()

    def usual(self, job: RunTime, at_ms: int) -> UsualLength | None:
        """Return what is usual for the narrowest kind of which enough jobs were completed before; None: of none."""
        for kind in kinds_of(job.job_id, job.team, job.experiment):
            jobs, p99_ms = self._p99(kind, at_ms)
            if jobs >= self._jobs_least:
                return UsualLength(kind, p99_ms)
        return None

    def may_exceed(self, job: RunTime, factor: float) -> bool:
        """Return False if the job has not run for longer than was usual at any of the instants, for any of its kinds."""
        kinds = kinds_of(job.job_id, job.team, job.experiment)
        return any(job.wall_ms > factor * self._least_p99(kind) for kind in kinds if kind in self._of)

    def _least_p99(self, kind: JobKind) -> int:
        if kind not in self._least:
            found = [self._p99(kind, at_ms) for at_ms in self._hours]
            enough = [p99_ms for jobs, p99_ms in found if jobs >= self._jobs_least]
            self._least[kind] = min(enough, default=NEVER_MS)
        return self._least[kind]

    def _p99(self, kind: JobKind, at_ms: int) -> tuple[int, int]:
        """Return how many jobs count, and the p99 of their run times."""
        known = self._known.get((kind, at_ms))
        if known is None:
            of_kind = self._of.get(kind, [])
            begin = bisect_left(of_kind, (at_ms - HISTORY_MS, "", 0))
            end = bisect_left(of_kind, (at_ms, "", 0))
            lengths = sorted(wall_ms for *_, wall_ms in of_kind[max(begin, end - HISTORY_JOBS) : end])
            known = len(lengths), lengths[-(-99 * len(lengths) // 100) - 1] if lengths else 0
            self._known[kind, at_ms] = known
        return known
