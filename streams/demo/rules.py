"""Judges the rules across jobs and budgets while the demo runs, at the fleet's pace."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from sinks.port import Store
from streams.clock import Clock
from streams.worker.ledger_judges.judged_hours import HOURS_KEY
from streams.worker.ledger_judges.known_alerts import SHARD
from streams.worker.ledger_judges.live_judge import LedgerRules
from streams.worker.ledger_judges.reader import LATE_MS
from streams.worker.shard_manager import ShardManager

_EVERY_S: Final = 0.5


class DemoRules:
    """Call `run` once the history is stored, so that the first look finds all shards."""

    def __init__(
        self, store: Store, shards: ShardManager, now_ms: Callable[[], int], clock: Clock, speed: float
    ) -> None:
        """`now_ms`: the fleet's clock, which is log time."""
        self._rules = LedgerRules(
            store,
            partial(shards.owned.get, SHARD),
            lambda: True,  # nobody else is in the group
            shards.reference,
            shards.checkpointer.alert_sink,
            _FleetClock(now_ms, clock),
            # Shards are stored by the machine's clock, while the fleet's passes faster.
            late_ms=int(LATE_MS * speed),
        )
        # Hours of the history are not judged: its controls came after them.
        store.meta.put(HOURS_KEY, str(now_ms()))
        self._ended = asyncio.Event()

    async def run(self) -> None:
        """Judge what is stored, until `end` is called, and once more after that.

        Raises:
            SinkError: The store could not be read or written.
        """
        ended = False
        while not ended:
            ended = self._ended.is_set()
            await self._rules.step()
            if not ended:
                await asyncio.sleep(_EVERY_S)

    def end(self) -> None:
        """Say that everything is stored."""
        self._ended.set()


class _FleetClock:
    def __init__(self, now_ms: Callable[[], int], clock: Clock) -> None:
        self.now_ms = now_ms
        self.monotonic_ms = clock.monotonic_ms
