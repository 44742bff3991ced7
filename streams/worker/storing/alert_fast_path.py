"""Stores and sends alerts ahead of the next checkpoint: one small insert instead of a whole flight.

An alert row is a function of the log alone, so it may be stored before the snapshot that includes it: after a crash in
between, the next owner judges the same tick again and derives the same alert with the same ids. The reverse must never
happen: a snapshot that includes an alert whose row is not stored.
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
    """Alert rows of one shard, and the status changes they belong to."""

    owned: OwnedShard
    rows: pa.Table
    alerts: Sequence[Alert]


class AlertFastPath:
    """`submit` alerts of a shard, then `flush`; what could not be stored waits for the next `flush`."""

    def __init__(
        self,
        insert: Callable[[str, pa.Table, str], None],
        offer: Callable[[Sequence[Alert], int, int], None],
    ) -> None:
        """Set up an empty path.

        Args:
            insert: Stores (table, rows, token); blocks; raises SinkBusy while nothing may be stored.
            offer: Receives what was stored: status changes, their shard, and the number of rows.
        """
        self._insert = insert
        self._offer = offer
        self._came: list[_Batch] = []
        self._flight: list[_Batch] = []  # retried unchanged until stored
        self._lock = asyncio.Lock()
        self._threads = Threads("alerts-of-now")
        self._telling: asyncio.Task[None] | None = None

    @property
    def waits(self) -> bool:
        """Whether anything submitted is not stored yet."""
        return bool(self._came or self._flight)

    def submit(self, owned: OwnedShard) -> None:
        """Queue the shard's changed alerts, if there are any."""
        if owned.shard.alerts_changed:
            self._came.append(_Batch(owned, *owned.shard.drain_alerts(owned.versions.next())))

    def forget(self, owned: OwnedShard) -> None:
        """Drop what waits of a shard that is no longer ours: its next owner judges the ticks again."""
        self._came = [batch for batch in self._came if batch.owned is not owned]

    def soon(self, fail: Callable[[BaseException], None]) -> None:
        """Flush in the background; what the store refuses waits for the next flush."""
        if self.waits and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._publish(fail), name="prompt alerts")

    async def _publish(self, fail: Callable[[BaseException], None]) -> None:
        try:
            while self._came:  # more may arrive during a flush
                await self.flush()
        except SinkBusy as busy:
            logger.warning(
                "alerts not stored, retrying with the next checkpoint",
                extra={"reason": str(busy), "runbook": "docs/trouble.md#store-unavailable"},
            )
        except Exception as fault:  # noqa: BLE001 - a task of the loop would only log it
            fail(fault)

    async def flush(self) -> None:
        """Store all that was submitted, then offer it to the alert sink.

        Raises:
            SinkBusy: The store refused; what is not stored is retained.
        """
        async with self._lock:
            while self.waits:
                if not self._flight:
                    self._flight, self._came = self._came, []
                flight = [batch for batch in self._flight if not batch.owned.gone]
                if flight:
                    await self._threads.run(self._store, flight)
                self._flight = []
                for batch in flight:
                    if not batch.owned.gone:  # else the new owner finds the rows and sends them
                        self._offer(batch.alerts, batch.owned.number, batch.rows.num_rows)

    def _store(self, flight: Sequence[_Batch]) -> None:
        rows = pa.concat_tables([batch.rows for batch in flight])
        # A version may be reused after a process that stored nothing under it, so the token includes the content.
        mark = hashlib.blake2b(digest_size=16)
        for batch in flight:
            named = f"{batch.owned.number}.{batch.rows['version'][0]}{batch.alerts!r}"
            mark.update(named.encode("utf-8", "surrogatepass"))
        self._insert(ALERTS, rows, f"alerts:{mark.hexdigest()}")
