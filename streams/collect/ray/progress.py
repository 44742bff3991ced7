"""How far Ray was read: the jobs that are not over, and how they are numbered. Plain values, stored as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from streams.collect.collector import Position
from streams.errors import TrainfareError

#: How many jobs with a name of their own are remembered, each with its newest attempt; those not seen for longest are forgotten.
_NUMBERED_AT_MOST: Final = 10_000

UNSEEN: Final = 0
QUEUED: Final = 1
STARTED: Final = 2


class OpenJob(msgspec.Struct, frozen=True, array_like=True):
    """A job that is not over: what was reported of it. Times in ms."""

    job_id: str
    attempt: int
    stage: int = UNSEEN
    held: str = ""  # the digest of the GPUs that were reported last
    seen_ms: int = 0  # when Ray listed it last
    removed_ms: dict[str, int] = {}  # placement group -> when it was seen to be gone


class _StoredProgress(msgspec.Struct):
    since_ms: int
    read_ms: int
    jobs: dict[str, OpenJob]
    newest: dict[str, int]


class RayProgress:
    """A position, taken apart: `read_ms` is up to when all was reported (0: nothing yet), `jobs` the open ones by Ray's key."""

    def __init__(
        self, since_ms: int, read_ms: int, jobs: Mapping[str, OpenJob], newest: Mapping[str, int]
    ) -> None:
        self.since_ms = since_ms
        self.read_ms = read_ms
        self.jobs = dict(jobs)
        self._newest = dict(newest)

    @classmethod
    def of(cls, position: Position | None, since_ms: int) -> RayProgress:
        """The progress of a position; `since_ms` is used where there is none yet.

        Raises:
            TrainfareError: It is not one that this collector stored.
        """
        if position is None:
            return cls(since_ms, 0, {}, {})
        try:
            stored = msgspec.convert(position, _StoredProgress)
        except msgspec.ValidationError:
            raise TrainfareError(
                "the position is not one of ray's; remove its file to read Ray from `since` on"
            ) from None
        return cls(stored.since_ms, stored.read_ms, stored.jobs, stored.newest)

    def position(self) -> dict[str, Any]:
        """Copy it into a position to store; later polls do not change the copy."""
        return {
            "since_ms": self.since_ms,
            "read_ms": self.read_ms,
            "jobs": {key: msgspec.to_builtins(job) for key, job in self.jobs.items()},
            "newest": dict(self._newest),
        }

    def number(self, job_id: str, attempt: int | None) -> int:
        """The attempt that a new submission of a job is: the one that is given, or the next."""
        found = self._newest.pop(job_id, 0) + 1 if attempt is None else attempt
        self._newest[job_id] = max(found, self._newest.get(job_id, 0))
        while len(self._newest) > _NUMBERED_AT_MOST:
            del self._newest[next(iter(self._newest))]
        return found
