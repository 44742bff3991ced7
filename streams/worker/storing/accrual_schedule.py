"""Schedules the accrual of open attempts: equally often for each shard, some shards at a time.

What accrues comes in tables of its own, and an insert costs much the same however few its rows: all shards at once would
need the fewest, but a flight with them would keep the rows of other jobs waiting.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from streams.worker.shards.owned_shard import OwnedShard

#: Slots in one interval; shards whose numbers are congruent modulo this are accrued together.
_TURNS: Final = 4


class AccrualSchedule:
    """Decides when the open attempts of each shard are accrued; `every_ms` None: never."""

    def __init__(self, every_ms: int | None) -> None:
        self._every_ms = every_ms
        self._last: dict[int, int] = {}

    def due(self, shards: Iterable[OwnedShard], now_ms: int) -> list[OwnedShard]:
        """The shards whose slot has passed since the last call; none on the first call."""
        return [
            owned for owned in shards if self._every_ms is not None and self._turned(owned.number, now_ms)
        ]

    def _turned(self, number: int, now_ms: int) -> bool:
        assert self._every_ms is not None  # checked by the caller
        turn = (now_ms - number % _TURNS * self._every_ms // _TURNS) // self._every_ms
        last, self._last[number] = self._last.get(number, turn), turn
        return last != turn
