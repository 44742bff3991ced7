"""The clock of append times: the wall clock, except that it never goes back or jumps far ahead.

Ticks are judged by it (docs/decisions/0015), so a wall clock that is set two hours ahead for a moment must
not be followed.
"""

from __future__ import annotations

from typing import Final

#: The wall clock may be this far from what the monotonic clock carries on.
_TOLERANCE_MS: Final = 1_000
#: A wall clock that is further ahead is followed once it has been for so long, as after a sleep of the machine.
_PATIENCE_MS: Final = 10_000


class AppendClock:
    """Gives append times from the newest one of the log on.

    Args:
        newest_ms: The newest append time in the log, ms since 1970.
        wall_ms: The wall clock now, ms since 1970.
        monotonic_ms: The monotonic clock now.
    """

    def __init__(self, newest_ms: int, wall_ms: int, monotonic_ms: int) -> None:
        self._now_ms = max(newest_ms, wall_ms)
        self._seen_ms = monotonic_ms
        self._ahead_since_ms: int | None = None

    def now_ms(self, wall_ms: int, monotonic_ms: int) -> int:
        """The time of what is appended now; never less than before."""
        self._now_ms += max(monotonic_ms - self._seen_ms, 0)
        self._seen_ms = max(monotonic_ms, self._seen_ms)
        if wall_ms <= self._now_ms + _TOLERANCE_MS:
            self._ahead_since_ms = None
        elif self._ahead_since_ms is None:
            self._ahead_since_ms = monotonic_ms
        elif monotonic_ms - self._ahead_since_ms >= _PATIENCE_MS:
            self._now_ms, self._ahead_since_ms = wall_ms, None
        return self._now_ms
