"""Plays a fleet in real time, at a multiple of its speed: each round adds the records of the time that passed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from schemas.durations import DAY_MS
from streams.clock import Clock
from streams.demo.records import DemoRecord

_ROUND_MS: Final = 100
#: Event time starts in a morning: the day has a history, and the stories' alerts are about to fire.
_MORNING_MS: Final = 9 * 3_600_000 + 50 * 60_000
#: Duration of a demo that nobody stops.
LONGEST_S: Final = 12 * 3_600


class RecordSource(Protocol):
    """Returns what happened up to an instant."""

    def advance(self, to_ms: int) -> list[DemoRecord]:
        """The records since the last call."""


def start_before(now_ms: int, speed: float, seconds: float | None) -> int:
    """A morning so long ago that event time does not reach `now_ms` before the demo ends."""
    longest_ms = (LONGEST_S if seconds is None else seconds) * 1_000 * speed
    days = -(-int(longest_ms + _MORNING_MS) // DAY_MS)
    return (now_ms // DAY_MS - days) * DAY_MS + _MORNING_MS


class Pacer:
    """`now_ms` is the fleet's clock: it advances when everything up to it is in the log."""

    def __init__(
        self,
        source: RecordSource,
        feed: Callable[[list[DemoRecord], int], Awaitable[None]],
        start_ms: int,
        speed: float,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._source = source
        self._feed = feed
        self._start_ms = start_ms
        self._speed = speed
        self._clock = clock
        self._sleep = sleep
        self._now_ms = start_ms

    def now_ms(self) -> int:
        """The event time up to which the log has everything."""
        return self._now_ms

    async def play(self, stop: asyncio.Event, seconds: float | None) -> None:
        """Play until asked to stop, or for so many seconds."""
        began_ms = self._clock.monotonic_ms()
        until_ms = int((LONGEST_S if seconds is None else seconds) * 1_000)
        rounds = 0
        while True:
            passed_ms = min(self._clock.monotonic_ms() - began_ms, until_ms)
            to_ms = self._start_ms + int(passed_ms * self._speed)
            await self._feed(self._source.advance(to_ms), to_ms)
            self._now_ms = to_ms
            if passed_ms >= until_ms or stop.is_set():
                return
            # Rounds are scheduled at fixed times: after a long round, the next waits less.
            rounds = max(rounds + 1, passed_ms // _ROUND_MS)
            due_ms = began_ms + min(rounds * _ROUND_MS, until_ms)
            await self._sleep(max(0, due_ms - self._clock.monotonic_ms()) / 1_000)
