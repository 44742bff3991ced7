"""One thread that appends what waits, all of it as one group: one sync answers many requests.

A request that was not answered may be in the log all the same.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Final, NamedTuple

from streams.segmented_log.errors import BadBatchError, LogError, LogFullError
from streams.segmented_log.frames import Place
from streams.segmented_log.log import SegmentedLog

#: Bytes of one group; what is more waits for the next.
GROUP_BYTES: Final = 8 * 2**20
#: Bytes that may wait; a request beyond them is refused.
WAITING_MAX_BYTES: Final = 64 * 2**20

Batches = Sequence[tuple[Place, bytes]]


class _Waiting(NamedTuple):
    batches: Batches
    size: int
    done: Future[list[int]]


class GroupCommit:
    """The only one who appends to a log.

    Args:
        log: The log.
        now_ms: The clock of append times; called by the thread alone.
        on_append: Called by the thread after each group.
    """

    def __init__(self, log: SegmentedLog, now_ms: Callable[[], int], on_append: Callable[[], None]) -> None:
        self._log = log
        self._now_ms = now_ms
        self._on_append = on_append
        self._changed = threading.Condition()
        self._waiting: list[_Waiting] = []
        self._waiting_bytes = 0
        self._closed = False
        self._writing = False
        self._thread = threading.Thread(target=self._run, name="log-append", daemon=True)
        self._thread.start()

    def submit(self, batches: Batches) -> Future[list[int]]:
        """The base offsets of the batches, once they are durable, or the LogError of `SegmentedLog.append`."""
        done = Future[list[int]]()
        done.set_running_or_notify_cancel()  # whoever waits may leave; it is written all the same
        size = sum(len(batch) for _, batch in batches)
        with self._changed:
            if self._closed:
                done.set_exception(LogError("the log is closed"))
            elif self._waiting and self._waiting_bytes + size > WAITING_MAX_BYTES:
                done.set_exception(LogFullError("too many events wait for the disk"))
            else:
                self._waiting.append(_Waiting(batches, size, done))
                self._waiting_bytes += size
                self._changed.notify()
        return done

    def settled(self) -> Future[list[int]] | None:
        """What is done once nothing with an append time of before now is still being written; None: nothing is."""
        return self.submit(()) if self._writing else None

    def close(self) -> None:
        """Append what waits, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def _run(self) -> None:
        while group := self._next_group():
            try:
                self._append(group)
            except BadBatchError:
                # One of them is no batch: each for itself, so that the others are taken.
                for waiting in group:
                    try:
                        self._append([waiting])
                    except Exception as fault:  # noqa: BLE001 - whoever waits gets it
                        waiting.done.set_exception(fault)
            except Exception as fault:  # noqa: BLE001 - those who wait get it
                for waiting in group:
                    waiting.done.set_exception(fault)
            self._on_append()

    def _next_group(self) -> list[_Waiting]:
        with self._changed:
            while not self._waiting and not self._closed:
                self._changed.wait()
            count, size = 0, 0
            for waiting in self._waiting:
                if count and size + waiting.size > GROUP_BYTES:
                    break
                count, size = count + 1, size + waiting.size
            self._writing = bool(count)
            group, self._waiting = self._waiting[:count], self._waiting[count:]
            self._waiting_bytes -= size
            return group

    def _append(self, group: Sequence[_Waiting]) -> None:
        batches = [batch for waiting in group for batch in waiting.batches]
        offsets = iter(self._log.append(batches, self._now_ms()))
        for waiting in group:
            waiting.done.set_result([next(offsets) for _ in waiting.batches])
