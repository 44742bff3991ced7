"""Stores and sends alerts ahead of the next checkpoint: people wait for one small insert, not for the whole checkpoint.

A row of an alert rests on nothing but the log, so it may be stored before the snapshot that knows of it: after a crash
in between the next owner judges the same tick again and comes to the same alert under the same ids.  The other way
round is what it must not let happen: a snapshot that knows of an alert whose row is not stored.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.tables import ALERTS
from sinks.errors import SinkBusy
from streams.engine.alerts.alert import Alert
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard

logger = logging.getLogger(__name__)


@dataclass(eq=False)
class _Batch:
    """Rows of one shard and the changes of status that they are of."""

    owned: OwnedShard
    rows: pa.Table
    alerts: Sequence[Alert]


class AlertFastPath:
    """`take` alerts of a shard, then `flush`; what could not be stored waits for the next call of it."""

    def __init__(
        self,
        insert: Callable[[str, pa.Table, str], None],
        offer: Callable[[Sequence[Alert], int, int], None],
    ) -> None:
        """`insert` blocks, and raises SinkBusy where nothing may be stored now.

        `offer` is handed what is stored: changes of status, their shard, how many rows that were.
        """
        self._insert = insert
        self._offer = offer
        self._came: list[_Batch] = []
        self._flight: list[_Batch] = []  # the same again until it is stored
        self._lock = asyncio.Lock()
        self._threads = Threads("alerts-of-now")
        self._telling: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether anything taken is not stored yet."""
        return bool(self._came or self._flight)

    def submit(self, owned: OwnedShard) -> None:
        """Take the shard's alerts that changed, if any did."""
        if owned.shard.alerts_changed:
            self._came.append(_Batch(owned, *owned.shard.drain_alerts(owned.versions.next())))

    def forget(self, owned: OwnedShard) -> None:
        """Drop what waits of a shard that is no longer ours: its next owner judges the ticks again."""
        self._came = [batch for batch in self._came if batch.owned is not owned]

    def soon(self, fail: Callable[[BaseException], None]) -> None:
        """Flush beside whatever goes on; a store that refuses is asked again by whoever flushes next."""
        if self.waits and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._publish(fail), name="prompt alerts")

    async def _publish(self, fail: Callable[[BaseException], None]) -> None:
        try:
            while self._came:  # more may come while some are stored
                await self.flush()
        except SinkBusy as busy:
            logger.warning(
                "alerts not stored, retrying with the next checkpoint",
                extra={"reason": str(busy), "runbook": "docs/operations.md#store-unavailable"},
            )
        except Exception as fault:  # noqa: BLE001 - a task of the loop would only log it
            fail(fault)

    async def flush(self) -> None:
        """Store all that was taken, and tell of it; raises SinkBusy, and keeps what is not stored."""
        async with self._lock:
            while self.waits:
                if not self._flight:
                    self._flight, self._came = self._came, []
                flight = [batch for batch in self._flight if not batch.owned.gone]
                if flight:
                    await self._threads.run(self._store, flight)
                self._flight = []
                for batch in flight:
                    if not batch.owned.gone:  # else it is its new owner's to tell of, who finds the rows
                        self._offer(batch.alerts, batch.owned.number, batch.rows.num_rows)

    def _store(self, flight: Sequence[_Batch]) -> None:
        rows = pa.concat_tables([batch.rows for batch in flight])
        # A version may return after a life that stored nothing that bears it, so the token says what is in it.
        mark = hashlib.blake2b(digest_size=16)
        for batch in flight:
            named = f"{batch.owned.number}.{batch.rows['version'][0]}{batch.alerts!r}"
            mark.update(named.encode("utf-8", "surrogatepass"))
        self._insert(ALERTS, rows, f"alerts:{mark.hexdigest()}")
