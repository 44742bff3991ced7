"""A queue of jobs by the time at which their last window becomes empty; each job is in it once."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from schemas.durations import NEVER_MS


class ExpiryQueue:
    """Jobs with the time of their next check, which may be too early but never too late."""

    __slots__ = ("_heap", "_queued_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._queued_ms: dict[str, int] = {}  # job -> time of its valid heap entry

    @property
    def next_ms(self) -> int:
        """Return the time of the next check; NEVER_MS if nothing waits."""
        return self._heap[0][0] if self._heap else NEVER_MS

    def schedule(self, job_id: str, due_ms: int) -> None:
        """Schedule a check of the job at `due_ms`, unless an earlier one is scheduled; NEVER_MS: the job is open."""
        if due_ms < self._queued_ms.get(job_id, NEVER_MS):
            heapq.heappush(self._heap, (due_ms, job_id))
            self._queued_ms[job_id] = due_ms

    def pop_due(self, now_ms: int, due_ms_of: Callable[[str], int]) -> Iterator[str]:
        """Yield and remove the jobs that are due by their present state."""
        while self.next_ms <= now_ms:
            queued_ms, job_id = heapq.heappop(self._heap)
            if self._queued_ms.get(job_id) != queued_ms:
                continue  # it was scheduled again at an earlier time
            del self._queued_ms[job_id]
            due_ms = due_ms_of(job_id)
            if due_ms <= now_ms:
                yield job_id
            else:
                self.schedule(job_id, due_ms)
