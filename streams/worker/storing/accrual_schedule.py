"""Schedules the accrual of open attempts: equally often for each shard, and spread over the checkpoints.

An alert waits for the flight it is in; must not read a clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams.worker.shards.owned_shard import OwnedShard

#: Turns in one interval; shards of numbers that far apart are paid together.
_TURNS: Final = 10


class AccrualSchedule:
    """`every_ms` None: nobody is ever due."""

    def __init__(self, every_ms: int | None) -> None:
        self._every_ms = every_ms
        self._last: dict[int, int] = {}

    def due(self, shards: Iterable[OwnedShard], now_ms: int) -> list[OwnedShard]:
        """Those whose turn has come since the last time they were looked at; never the first time."""
        return [
            owned for owned in shards if self._every_ms is not None and self._turned(owned.number, now_ms)
        ]

    def _turned(self, number: int, now_ms: int) -> bool:
        assert self._every_ms is not None  # asked above
        turn = (now_ms - number % _TURNS * self._every_ms // _TURNS) // self._every_ms
        last, self._last[number] = self._last.get(number, turn), turn
        return last != turn
