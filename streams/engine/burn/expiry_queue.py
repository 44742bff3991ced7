"""A queue of jobs by the time at which nothing of them is left in any window; each job is in it once.

Must not know why a job ends.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator

from streams.engine.kernels.arrays import NEVER_MS


class ExpiryQueue:
    """Jobs, and when to ask whether they are due: when that was put, which may be too early but never too late."""

    __slots__ = ("_heap", "_queued_ms")

    def __init__(self) -> None:
        self._heap: list[tuple[int, str]] = []
        self._queued_ms: dict[str, int] = {}  # of each job the entry of the heap that counts

    @property
    def next_ms(self) -> int:
        """Before that nothing is due; NEVER_MS if nothing waits."""
        return self._heap[0][0] if self._heap else NEVER_MS

    def schedule(self, job_id: str, due_ms: int) -> None:
        """The job may be due then, if not before; NEVER_MS: it goes on."""
        if due_ms < self._queued_ms.get(job_id, NEVER_MS):
            heapq.heappush(self._heap, (due_ms, job_id))
            self._queued_ms[job_id] = due_ms

    def pop_due(self, now_ms: int, due_ms_of: Callable[[str], int]) -> Iterator[str]:
        """The jobs that are due, by what is known now; they are forgotten."""
        while self.next_ms <= now_ms:
            queued_ms, job_id = heapq.heappop(self._heap)
            if self._queued_ms.get(job_id) != queued_ms:
                continue  # it was put again, to be asked earlier
            del self._queued_ms[job_id]
            due_ms = due_ms_of(job_id)
            if due_ms <= now_ms:
                yield job_id
            else:
                self.schedule(job_id, due_ms)
