"""Schedules checkpoints: at a steady interval, shorter under much load, longer far behind the end of the log.

A checkpoint costs as much for each shard and job, however little it holds, so that a worker of few records takes its
time; one of many would rather have its rows readable sooner; and rows of a log that was waiting are old anyway. It must
not read a clock.
"""

from __future__ import annotations

from typing import Final

#: Read each second, from here on the pace is quick: a quarter of 100,000 GPUs at 1 Hz, three times 1,000 messages.
BUSY_BYTES_PER_S: Final = 2**20
#: And from here on what is behind the log's end is a log that was waiting: no fleet of one worker says so much (a message
#: of eight GPUs is 317 bytes: 800,000 GPUs at 1 Hz).
FLOOD_BYTES_PER_S: Final = 32 * 2**20


class CheckpointSchedule:
    """Of the checkpoints of one worker; instants are of one monotonic clock."""

    def __init__(self, interval_ms: int, now_ms: int) -> None:
        """The first is due an interval from now."""
        self._usual_ms = interval_ms
        # One second by default: rows of each job are written with every checkpoint, so it must not come much oftener.
        self._busy_ms = max(interval_ms * 5 // 6, 1)
        self._flood_ms = interval_ms * 5 // 3
        self._began_ms = now_ms
        self.every_ms = interval_ms
        self.due_ms = now_ms
        self._read_per_s = 0  # between the last two checkpoints

    def start(self, now_ms: int) -> None:
        """Reading begins now, which may be long after a worker was started."""
        self._began_ms = self.due_ms = now_ms

    def plan(self, now_ms: int) -> int:
        """Until the next one; half an interval at least, for others, where storing takes long."""
        self.due_ms = max(self.due_ms + self.every_ms, now_ms + self.every_ms // 2)
        return self.due_ms - now_ms

    def late_ms(self, now_ms: int, fed_bytes: int) -> int:
        """How long to wait for an answer of the broker that is late; 0 if none is.

        Answers are asked for so that they come shortly before a checkpoint.  One that misses it waits for the next, a
        whole interval; it shows as less than half of what was read before.
        """
        is_late = (
            self._read_per_s >= BUSY_BYTES_PER_S and self._per_s(now_ms, fed_bytes) * 2 < self._read_per_s
        )
        return self.every_ms // 4 if is_late and not self.is_slow else 0

    def can_wait(self, now_ms: int, fed_bytes: int, *, behind: bool) -> bool:
        """Whether a log that was waiting began to come since the last checkpoint: then this one is not due yet.

        `behind`: more is known to be in the log.
        """
        until_ms = self._began_ms + self._flood_ms
        if now_ms >= until_ms or not self._is_flood(now_ms, fed_bytes, behind=behind):
            return False
        self.every_ms, self.due_ms = self._flood_ms, until_ms - self._flood_ms
        return True

    def begins(self, now_ms: int, fed_bytes: int, *, behind: bool = False) -> None:
        """A checkpoint of what was read since the last one, at its time or, for something urgent, before it."""
        self._read_per_s = self._per_s(now_ms, fed_bytes)
        if self._is_flood(now_ms, fed_bytes, behind=behind):
            self.every_ms = self._flood_ms
        else:
            busy = self._read_per_s >= BUSY_BYTES_PER_S
            self.every_ms = self._busy_ms if busy else self._usual_ms
        self._began_ms = now_ms
        self.due_ms = min(self.due_ms, now_ms)

    def _per_s(self, now_ms: int, fed_bytes: int) -> int:
        return fed_bytes * 1000 // max(now_ms - self._began_ms, 1)

    def _is_flood(self, now_ms: int, fed_bytes: int, *, behind: bool) -> bool:
        return behind and self._per_s(now_ms, fed_bytes) >= FLOOD_BYTES_PER_S

    @property
    def is_slow(self) -> bool:
        """Whether a log that was waiting is coming: at its end nobody should wait for the next checkpoint's time."""
        return self.every_ms == self._flood_ms

    def left_ms(self, now_ms: int) -> tuple[int, int]:
        """Until the next one, and from one to the next."""
        return (self.due_ms - now_ms) % self.every_ms, self.every_ms
