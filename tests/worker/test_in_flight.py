"""Large flights: a shard that has more fills one, and many burn rates are stored beside the other rows."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa
import pytest

from schemas.tables import BURN_RATES, JOBS
from sinks.errors import SinkBusy
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.shard import Shard
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.options import ShardManagerOptions
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.owned_shard import InFlightCheckpoint
from streams.worker.storing import checkpointer
from tests.memory_store import MemoryStore
from tests.sinks.rows import rows
from tests.worker.fakes import CountingShard, State, as_shard
from tests.worker.test_checkpointer import Member


class Plenty(CountingShard):
    """Has rows for three checkpoints, of burn rates and of a job each."""

    left = 3

    def checkpoint(
        self, as_of_ms: int, version: int, *, open_attempts: bool, rows_only: bool = False
    ) -> Checkpoint:
        point = super().checkpoint(as_of_ms, version, open_attempts=open_attempts, rows_only=rows_only)
        self.left -= 1
        name = {"job_id": f"{self.number}-{self.left}", "shard": self.number, "version": version}
        tables = {BURN_RATES: rows(BURN_RATES, name), JOBS: rows(JOBS, name)}
        return replace(point, version=version, tables=tables, rows=2, more=self.left > 0)


def shard_manager(
    store: MemoryStore, *, fill_flights: bool = False, flight_max_bytes: int = 2**26
) -> ShardManager:
    def make(number: int, book: PriceBook, _blobs: object) -> Shard:
        return as_shard(Plenty(number, book, State()))

    options = ShardManagerOptions(
        "t.", lambda: 0, lambda: 0, fill_flights=fill_flights, flight_max_bytes=flight_max_bytes
    )
    return ShardManager(store, make, Member, options)


async def fed(one: ShardManager, count: int) -> ShardManager:
    """It holds so many shards, each with a record."""
    one.assigned({TP(f"t.{topic}", n) for topic in SHARD_TOPICS for n in range(count)}, 1)
    await one.restore_missing()
    for number in range(count):
        await one.ingest_batches(LogBatch("gpu", number, 0, 1, [LogRecord(0, 0, b"1")]))
    return one


def numbers(one: ShardManager) -> list[int]:
    due: Iterator[InFlightCheckpoint] = one._due(open_attempts=False)
    return [taken.owned.number for taken in due]


def test_a_shard_that_has_more_gives_it_to_the_same_flight_as_long_as_there_is_room() -> None:
    async def go(*, fill_flights: bool = False, flight_max_bytes: int = 2**26) -> list[list[int]]:
        store = MemoryStore()
        one = await fed(shard_manager(store, fill_flights=fill_flights, flight_max_bytes=flight_max_bytes), 2)
        return [numbers(one) for _ in range(4)]

    assert asyncio.run(go()) == [[0, 1], [0, 1], [0, 1], []]
    assert asyncio.run(go(fill_flights=True)) == [[0, 0, 0, 1, 1, 1], [], [], []]
    assert asyncio.run(go(fill_flights=True, flight_max_bytes=400)) == [[0, 0], [1, 1], [0, 1], []]


def test_a_shard_that_left_meanwhile_gives_no_more() -> None:
    async def go() -> None:
        one = await fed(shard_manager(MemoryStore(), fill_flights=True), 1)
        due = one._due(open_attempts=False)
        assert next(due).owned.number == 0
        one.assigned(set(), 5)
        assert list(due) == []

    asyncio.run(go())


class Watched(MemoryStore):
    """Notes which thread stores what; refuses burn rates so many times."""

    refusals = 0

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, str] = {}

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        self.threads[table] = threading.current_thread().name
        if table == BURN_RATES and self.refusals:
            self.refusals -= 1
            raise SinkBusy("not now")
        super().insert(table, rows, token)


@pytest.mark.parametrize("many", [True, False])
def test_many_burn_rates_are_stored_beside_the_other_rows(
    many: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer, "_MANY_ROWS", 6 if many else 7)

    async def go(store: Watched) -> None:
        one = await fed(shard_manager(store, fill_flights=True), 2)
        assert await one.store_all()

    store = Watched()
    asyncio.run(go(store))
    assert store.threads[BURN_RATES].startswith("beside") is many
    assert store.select(BURN_RATES).num_rows == store.select(JOBS).num_rows == 6


def test_burn_rates_that_are_refused_hold_back_the_flight_until_they_are_stored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checkpointer, "_MANY_ROWS", 1)

    async def go(store: Watched) -> None:
        one = await fed(shard_manager(store, fill_flights=True), 1)
        assert not await one.checkpoint(open_attempts=False)
        assert store.snapshots.load(0).version == 0
        assert await one.store_all()

    store = Watched()
    store.refusals = 1
    asyncio.run(go(store))
    assert store.select(BURN_RATES).num_rows == 3
    assert store.snapshots.load(0).version > 0
