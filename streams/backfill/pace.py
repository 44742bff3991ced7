"""Leaves the store to others for part of the time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from streams.clock import Clock

#: A fifth of the time is the backfill's.
_REST_PER_WORK: Final = 4
_LONGEST_MS: Final = 3_000


class BackfillPace:
    """Call it after each piece of work: it pauses for four times as long as the work took, three seconds at most."""

    def __init__(self, clock: Clock, sleep: Callable[[float], None]) -> None:
        """`sleep` takes seconds."""
        self._clock = clock
        self._sleep = sleep
        self._since_ms = clock.monotonic_ms()

    def __call__(self) -> None:
        """Pause."""
        worked_ms = self._clock.monotonic_ms() - self._since_ms
        self._sleep(min(_REST_PER_WORK * worked_ms, _LONGEST_MS) / 1000)
        self._since_ms = self._clock.monotonic_ms()
