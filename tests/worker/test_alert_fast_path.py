"""Alerts of now are told before the checkpoint that follows, and no snapshot knows of one whose row is not stored."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from schemas.tables import ALERTS, DEAD_LETTERS
from sinks.errors import QueryFailed, SinkBusy, SinkError
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.engine.batch import LogBatch, LogRecord
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import NoAlertSink
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import an_alert
from tests.worker.fakes import CountingShard
from tests.worker.test_shard_manager import Bench


class SlowLetters(MemoryStore):
    """Takes dead letters once they may land."""

    def __init__(self, lands: threading.Event) -> None:
        super().__init__()
        self._lands = lands

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        if table == DEAD_LETTERS:
            assert self._lands.wait(10)
        super().insert(table, rows, token)


class Told(NoAlertSink):
    """Notes who was told of what, and whether its row was stored by then."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.news = asyncio.Event()
        self.told: list[str] = []

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        stored = set(self._store.select(ALERTS)["alert_id"].to_pylist())
        for alert in alerts:
            assert alert.alert_id in stored
            self.told.append(f"{alert.subject_name} {alert.status} of {shard}")
        self.news.set()


class Office:
    """A shard manager of shards 0 and 1 that tells at once."""

    def __init__(self, store: MemoryStore | None = None) -> None:
        self.bench = Bench(store, alerts_at_once=True)
        self.alert_sink = Told(self.bench.store)
        self.shard_manager = self.bench.shard_manager
        self.shard_manager.checkpointer.alert_sink = self.alert_sink

    async def open(self) -> Office:
        await self.bench.own({0, 1}, 1)
        return self

    def owned(self, number: int) -> OwnedShard:
        return self.shard_manager.owned[number]

    def change(self, number: int, *alerts: Alert) -> None:
        """A tick has judged these."""
        cast("CountingShard", self.owned(number).shard).alerts += alerts

    def tell(self, number: int) -> None:
        self.shard_manager.checkpointer.publish_alerts(self.owned(number), self.shard_manager.fail)

    async def heard(self, count: int = 1) -> list[str]:
        while len(self.alert_sink.told) < count:
            self.alert_sink.news.clear()
            await asyncio.wait_for(self.alert_sink.news.wait(), 10)
        return self.alert_sink.told

    async def fly(self) -> asyncio.Future[bool]:
        """A flight that carries shard 0 is under way."""
        flight = asyncio.ensure_future(self.shard_manager.checkpoint(open_attempts=False))
        for _ in range(100):
            await asyncio.sleep(0)
        assert self.shard_manager.checkpointer.carries(self.owned(0))
        return flight


def test_alert_is_stored_and_told_while_a_flight_is_under_way() -> None:
    async def go() -> None:
        office = await Office(SlowLetters(lands)).open()
        await office.shard_manager.ingest_batches(LogBatch("gpu", 0, 0, 1, [LogRecord(0, 0, b"no number")]))
        flight = await office.fly()
        office.change(0, an_alert("a"))
        office.tell(0)
        assert await office.heard() == ["a firing of 0"]
        assert not flight.done()
        lands.set()
        assert await flight
        assert office.alert_sink.told == ["a firing of 0"]  # and no second time
        assert office.shard_manager.totals.rows[ALERTS] == 1

    lands = threading.Event()
    asyncio.run(go())


#: A table that refuses rows ends no metering either: whoever mends it need not restart a worker.
REFUSALS = (SinkBusy("not now"), QueryFailed("Not enough privileges"))


class Refusing(MemoryStore):
    """Takes no alerts for a while."""

    refuses = True

    def __init__(self, error: SinkError) -> None:
        super().__init__()
        self._error = error

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        if table == ALERTS and self.refuses:
            raise copy(self._error)
        super().insert(table, rows, token)


@pytest.mark.parametrize("error", REFUSALS, ids=str)
def test_no_snapshot_is_stored_before_the_alerts_that_it_knows_of(error: SinkError) -> None:
    async def go() -> None:
        store = Refusing(error)
        office = await Office(store).open()
        await office.bench.feed(0, 0, 5)
        office.change(0, an_alert("a"))
        office.tell(0)
        assert not await office.shard_manager.checkpoint(open_attempts=False)
        assert store.snapshots.load(0).blobs == []
        assert office.alert_sink.told == []
        store.refuses = False
        assert await office.shard_manager.checkpoint(open_attempts=False)
        assert store.snapshots.load(0).blobs
        assert office.alert_sink.told == ["a firing of 0"]
        assert office.shard_manager.fault is None

    asyncio.run(go())


@pytest.mark.parametrize("error", REFUSALS, ids=str)
def test_alerts_alone_are_stored_by_the_next_checkpoint_where_they_were_refused(error: SinkError) -> None:
    async def go() -> None:
        store = Refusing(error)
        office = await Office(store).open()
        office.change(1, an_alert("a"))
        office.tell(1)
        assert not await office.shard_manager.checkpoint(open_attempts=False)
        store.refuses = False
        assert await office.shard_manager.checkpoint(open_attempts=False)
        assert office.alert_sink.told == ["a firing of 1"]

    asyncio.run(go())


def test_alerts_of_a_shard_that_leaves_are_its_next_owners_to_tell() -> None:
    async def go() -> None:
        store = Refusing(SinkBusy("not now"))
        office = await Office(store).open()
        for number in (0, 1):
            office.change(number, an_alert(f"of-{number}"))
            office.tell(number)
        assert not await office.shard_manager.checkpoint(open_attempts=False)
        office.shard_manager.assigned({TP(f"t.{topic}", 1) for topic in SHARD_TOPICS}, 2)
        store.refuses = False
        assert await office.shard_manager.checkpoint(open_attempts=False)
        assert office.alert_sink.told == ["of-1 firing of 1"]
        assert store.select(ALERTS).num_rows == 1

    asyncio.run(go())


def test_a_change_does_not_overtake_an_earlier_one_that_a_flight_carries() -> None:
    async def go() -> None:
        office = await Office(SlowLetters(lands)).open()
        shard = cast("CountingShard", office.owned(0).shard)
        take = shard.checkpoint

        def with_alert(as_of_ms: int, version: int, **options: Any) -> Any:
            rows, alerts = shard.drain_alerts(version)
            point = take(as_of_ms, version, **options)
            return replace(point, alerts=alerts, tables={**point.tables, ALERTS: rows}) if alerts else point

        shard.checkpoint = with_alert  # type: ignore[method-assign]  # as the engine's shards do
        await office.shard_manager.ingest_batches(LogBatch("gpu", 0, 0, 1, [LogRecord(0, 0, b"no number")]))
        office.change(0, an_alert("a"))
        flight = await office.fly()
        office.change(0, an_alert("a", "resolved", an_alert().changed_ms + 10_000))
        office.tell(0)
        assert shard.alerts_changed
        lands.set()
        assert await flight
        office.tell(0)
        assert await office.heard(2) == ["a firing of 0", "a resolved of 0"]

    lands = threading.Event()
    asyncio.run(go())


def test_a_fault_of_the_store_ends_the_meter() -> None:
    class Broken(MemoryStore):
        def insert(self, table: str, rows: pa.Table, token: str) -> None:
            raise ValueError("no such table")

    async def go() -> None:
        office = await Office(Broken()).open()
        office.change(0, an_alert("a"))
        office.tell(0)
        await asyncio.wait_for(office.shard_manager.failed.wait(), 10)
        assert isinstance(office.shard_manager.fault, ValueError)

    asyncio.run(go())


def test_a_takeover_waits_for_alerts_that_are_refused_too() -> None:
    """Rows newer than the snapshot are put right before a shard is fed: who puts them asks again, and ends nothing."""

    async def go() -> None:
        office = Office(Refusing(QueryFailed("Not enough privileges")))
        rows = alerts_table([an_alert("a")], 0, 1)
        with pytest.raises(SinkBusy, match="the store refuses rows of `alerts`"):
            office.shard_manager._rehydrator.store_rows(ALERTS, rows, "put right")

    asyncio.run(go())
