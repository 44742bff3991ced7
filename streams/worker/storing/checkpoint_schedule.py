"""Schedules checkpoints: at a steady interval, shorter under high load, longer while catching up.

A checkpoint has a fixed cost per shard and job. A worker with few records therefore checkpoints rarely; one
with many does so often, so that rows become visible sooner; rows of a backlog are old anyway.
"""

from __future__ import annotations

from typing import Final

#: While busy or catching up, so many checkpoints of a shard have one snapshot: the others are rows only, which a restart reads
#: back. A snapshot costs half as much as the rows of a second, and each accrual has one: while busy, the others would
#: come between two accruals. A busy shard then goes back ten seconds of its log, which it folds again in a tenth of one.
_BUSY_SNAPSHOTS_EVERY: Final = 12
_FLOOD_SNAPSHOTS_EVERY: Final = 3
#: Above this read rate the interval is short: a quarter of 100,000 GPUs at 1 Hz, three times 1,000 messages.
BUSY_BYTES_PER_S: Final = 2**20
#: Above this rate the worker is catching up: no fleet of one worker produces so much (a message of eight GPUs is 317
#: bytes, so this is 800,000 GPUs at 1 Hz).
FLOOD_BYTES_PER_S: Final = 32 * 2**20


class CheckpointSchedule:
    """Schedules the checkpoints of one worker. All instants are of one monotonic clock."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        """Schedule the first checkpoint one interval from now."""
        self._usual_ms = interval_ms
        # One second by default: every checkpoint writes rows of each job, so it must not come much more often.
        self._busy_ms = max(interval_ms * 5 // 6, 1)
        self._flood_ms = interval_ms * 5 // 3
        self._began_ms = now_ms
        self.every_ms = interval_ms
        self.due_ms = now_ms
        #: How many checkpoints of a shard have one snapshot; see `OwnedShard.checkpoint`.
        self.snapshots_every = 1
        self._read_per_s = 0  # between the last two checkpoints

    def start(self, now_ms: int) -> None:
        """Start measuring at `now_ms`: reading may begin long after the worker started."""
        self._began_ms = self.due_ms = now_ms

    def plan(self, now_ms: int, stored_in_ms: int = 0) -> int:
        """The ms until the next checkpoint.

        Half an interval at least is left for other work; it includes the time in which the last one was stored, by a
        thread of its own, but for an eighth of an interval in which the store, too, has time for others.
        """
        rest_ms = max(self.every_ms // 2 - stored_in_ms, self.every_ms // 8)
        self.due_ms = max(self.due_ms + self.every_ms, now_ms + rest_ms)
        return self.due_ms - now_ms

    def late_ms(self, now_ms: int, fed_bytes: int) -> int:
        """How long to wait for a late fetch response; 0 if none is late.

        Fetches are timed so that responses arrive shortly before a checkpoint. One that misses it waits a whole
        interval for the next. A response is late if less than half of the usual bytes have arrived.
        """
        is_late = (
            self._read_per_s >= BUSY_BYTES_PER_S and self._per_s(now_ms, fed_bytes) * 2 < self._read_per_s
        )
        return self.every_ms // 4 if is_late and not self.is_slow else 0

    def can_wait(self, now_ms: int, fed_bytes: int, *, behind: bool) -> bool:
        """Whether a catch-up began since the last checkpoint, so that this one is not due yet.

        `behind`: whether the log is known to hold more.
        """
        until_ms = self._began_ms + self._flood_ms
        if now_ms >= until_ms or not self._is_flood(now_ms, fed_bytes, behind=behind):
            return False
        self.every_ms, self.due_ms = self._flood_ms, until_ms - self._flood_ms
        return True

    def begins(self, now_ms: int, fed_bytes: int, *, behind: bool = False) -> None:
        """Record that a checkpoint of everything read since the last one begins, on time or early."""
        self._read_per_s, was_slow = self._per_s(now_ms, fed_bytes), self.is_slow
        if self._is_flood(now_ms, fed_bytes, behind=behind):
            self.every_ms, self.snapshots_every = self._flood_ms, _FLOOD_SNAPSHOTS_EVERY
        else:
            busy = self._read_per_s >= BUSY_BYTES_PER_S
            self.every_ms = self._busy_ms if busy else self._usual_ms
            # The end of a catch-up has a snapshot, so that nobody catches up again.
            self.snapshots_every = _BUSY_SNAPSHOTS_EVERY if busy and not was_slow else 1
        self._began_ms = now_ms
        self.due_ms = min(self.due_ms, now_ms)

    def _per_s(self, now_ms: int, fed_bytes: int) -> int:
        return fed_bytes * 1000 // max(now_ms - self._began_ms, 1)

    def _is_flood(self, now_ms: int, fed_bytes: int, *, behind: bool) -> bool:
        return behind and self._per_s(now_ms, fed_bytes) >= FLOOD_BYTES_PER_S

    @property
    def is_slow(self) -> bool:
        """Whether the worker is catching up: at the end of the backlog a checkpoint should follow immediately."""
        return self.every_ms == self._flood_ms

    def left_ms(self, now_ms: int) -> tuple[int, int]:
        """The ms until the next checkpoint, and the current interval."""
        return (self.due_ms - now_ms) % self.every_ms, self.every_ms
