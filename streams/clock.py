"""Clocks, passed to whatever needs the time, so that tests control it.

Logic must not read the time by itself; only the outermost parts create a `SystemClock`.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Wall-clock time for instants that people see, monotonic time for durations."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary instant; never decreases."""


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """Milliseconds since 1970 UTC."""
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        """Milliseconds since an arbitrary instant."""
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that stands still until it is advanced."""

    def __init__(self, now_ms: int = 0) -> None:
        self._now_ms = now_ms
        self._monotonic_ms = 0

    def now_ms(self) -> int:
        """The time it was set to."""
        return self._now_ms

    def monotonic_ms(self) -> int:
        """The sum of all advances."""
        return self._monotonic_ms

    def advance(self, by_ms: int) -> None:
        """Advance both times.

        Raises:
            ValueError: `by_ms` is negative.
        """
        if by_ms < 0:
            raise ValueError(f"a clock cannot go back: advance({by_ms})")
        self._now_ms += by_ms
        self._monotonic_ms += by_ms
