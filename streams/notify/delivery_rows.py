"""Writes the rows of `deliveries` in batches and in order, and retries until they are stored."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.columns import instants
from schemas.tables import DELIVERIES, SCHEMAS
from sinks.errors import SinkError
from sinks.rows import Rows
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

_AT_ONCE: Final = 5_000


class DeliveryRow(NamedTuple):
    """One row: the outcome of one attempt, or why there was none (attempt 0)."""

    time_ms: int
    alert_id: str
    webhook_id: str
    status: str
    receiver: str
    attempt: int
    outcome: str
    http_status: int
    detail: str


class DeliveryWriter:
    """Rows waiting to be stored; a batch that failed is retried unchanged before any other."""

    def __init__(self, store: Rows, faults: DeliveryFaults) -> None:
        self._store = store
        self._faults = faults
        self._threads = Threads("deliveries-write")
        self._rows: list[DeliveryRow] = []
        self._flight: list[DeliveryRow] = []
        self._news = asyncio.Event()
        self._lock = asyncio.Lock()

    @property
    def waiting(self) -> int:
        """How many rows are not stored yet."""
        return len(self._rows) + len(self._flight)

    def add(self, row: DeliveryRow) -> None:
        """Queue a row."""
        self._rows.append(row)
        self._news.set()

    async def flush(self) -> None:
        """Store all queued rows.

        Raises:
            SinkError: The store refused them; they stay queued.
        """
        async with self._lock:
            while self._flight or self._rows:
                if not self._flight:
                    self._flight, self._rows = self._rows[:_AT_ONCE], self._rows[_AT_ONCE:]
                table = delivery_table(self._flight)
                await self._threads.run(self._store.insert, DELIVERIES, table, _token(self._flight))
                self._flight = []
                self._faults.worked("store_deliveries")
            self._news.clear()

    async def run(self) -> None:
        """Store rows as they arrive, until cancelled."""
        while True:
            await self._news.wait()
            try:
                await self.flush()
            except SinkError as fault:
                rest_ms = self._faults.failed("store_deliveries", fault, rows=self.waiting)
                await asyncio.sleep(rest_ms / 1000)


def delivery_table(rows: Sequence[DeliveryRow]) -> pa.Table:
    """Build the table; of two processes' rows with one key the later one counts."""
    columns = dict(zip(DeliveryRow._fields, zip(*rows, strict=True), strict=True))
    times = columns.pop("time_ms")
    names = SCHEMAS[DELIVERIES]
    arrays = {name: pa.array(column, names.field(name).type) for name, column in columns.items()}
    arrays["time"] = instants(times)
    arrays["version"] = pa.array(times, pa.uint64())
    return pa.Table.from_arrays([arrays[name] for name in names.names], schema=names)


def _token(rows: Sequence[DeliveryRow]) -> str:
    """Name the content: another batch never has this token."""
    mark = hashlib.blake2b(digest_size=16)
    for row in rows:
        mark.update(repr(row).encode())
    return f"deliveries:{mark.hexdigest()}"
