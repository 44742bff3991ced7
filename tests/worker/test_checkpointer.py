"""What one flight to the store carries, in which order, and what is published beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import ClassVar

import pyarrow as pa

from schemas.events import ControlEvent
from schemas.source_table import SOURCES
from schemas.tables import BOOKS, DEAD_LETTERS, JOB_MINUTES, JOBS
from sinks.errors import StoreFull
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.job_tables import DeadLetter
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.options import ShardManagerOptions
from streams.worker.reference.reference_reader import ReferenceChanges
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.owned_shard import InFlightCheckpoint, OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from tests.memory_store import MemoryStore
from tests.sinks.rows import rows
from tests.worker.fakes import CountingShard, State, as_shard, counting_shards, point

LETTER = DeadLetter("prices", 0, 7, "out_of_range", "field `usd`: got -1", b"{}", 5)


class Published:
    """Notes which dead letters were sent on, and how many rows the table had then."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.sent: list[tuple[str, int]] = []
        self.stored_before: list[int] = []

    def send(self, rows: pa.Table) -> None:
        self.stored_before.append(self._store.select(DEAD_LETTERS).num_rows)
        self.sent += zip(rows["topic"].to_pylist(), rows["offset"].to_pylist(), strict=True)


class Member:
    """A consumer that is in the group."""

    counted_on = True

    def is_member(self) -> bool:
        return self.counted_on

    async def refetch(self, tp: TP, log_offset: int) -> None:
        raise AssertionError((tp, log_offset))

    async def confirm(self, generation: int) -> bool:
        return self.is_member()

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
        return True


def shard_manager(
    store: MemoryStore, published: Published | None = None, flight_max_bytes: int = 2**26
) -> ShardManager:
    options = ShardManagerOptions("t.", lambda: 0, lambda: 0, flight_max_bytes=flight_max_bytes)
    return ShardManager(store, counting_shards(), Member, options, published)


def test_refused_price_is_published_once_however_often_the_topic_is_read() -> None:
    store = MemoryStore()
    published = Published(store)

    async def life() -> None:
        one = shard_manager(store, published)
        await one.on_reference_changes(
            ReferenceChanges(PriceBook.empty(), {}, [], [LETTER], 0, 8, {"prices": 8})
        )
        assert one.reference_next == {"prices": 8}
        assert await one.checkpoint(open_attempts=False)

    for _ in range(2):
        asyncio.run(life())
    assert published.sent == [("prices", 7)]
    assert published.stored_before == [0]  # a crash between the two publishes it again, never not at all
    assert store.select(DEAD_LETTERS).num_rows == 1


def test_flight_ends_when_it_is_heavy_and_the_other_shards_come_first_in_the_next() -> None:
    async def go() -> None:
        one = shard_manager(MemoryStore(), flight_max_bytes=0)
        one.assigned({TP(f"t.{topic}", n) for topic in SHARD_TOPICS for n in range(3)}, 1)
        await one.restore_missing()
        for number in range(3):
            await one.ingest_batches(LogBatch("gpu", number, 0, 1, [LogRecord(0, 0, b"1")]))
        flights = [_numbers(one) for _ in range(3)]
        assert flights == [[0], [1], [2]]
        assert _numbers(one) == []

    asyncio.run(go())


def _numbers(one: ShardManager) -> list[int]:
    due: Iterator[object] = one._due(open_attempts=False)
    return [taken.owned.number for taken in due]  # type: ignore[attr-defined]  # the order of shards is the point


def test_rows_of_no_shard_count_in_the_backlog_until_they_are_stored() -> None:
    async def go() -> None:
        store = MemoryStore()
        one = shard_manager(store)
        assert one.backlog_bytes == 0
        one.refuse([LETTER], "lines")
        assert one.backlog_bytes > 0
        store.fail(1)
        assert not await one.checkpoint(open_attempts=False)
        assert one.backlog_bytes > 0
        assert await one.checkpoint(open_attempts=False)
        assert one.backlog_bytes == 0

    asyncio.run(go())


def test_since_when_a_record_of_a_source_waits_to_be_stored() -> None:
    async def go() -> None:
        store = MemoryStore()
        one = shard_manager(store)
        owner, source = (
            ControlEvent("t", kind, 1, kind, "a", {"polls": 1, "entries": {"metered": 1}})
            for kind in ("owner", "source")
        )
        log = [(60, b"owner/a", owner), (70, b"source/a", source), (90, b"source/a", source)]
        changes = ReferenceChanges(
            PriceBook.empty(), {}, [], [], 0, 0, {}, control_log=log, control_offsets=[1, 2, 3]
        )
        assert one.checkpointer.unstored_source_ms is None
        await one.on_reference_changes(changes)
        store.fail(1)
        assert not await one.checkpoint(open_attempts=False)
        assert one.checkpointer.unstored_source_ms == 70
        assert await one.checkpoint(open_attempts=False)
        assert one.checkpointer.unstored_source_ms is None
        assert store.select(SOURCES).num_rows == 2

    asyncio.run(go())


def test_a_store_that_refuses_for_longer_than_the_patience_ends_the_meter_in_its_words() -> None:
    async def go(patience_ms: int | None) -> BaseException | None:
        store, clock_ms = MemoryStore(), [0]
        store.fail(20, error=StoreFull("the disk is full"))
        options = ShardManagerOptions("t.", lambda: 0, lambda: clock_ms[0], store_patience_ms=patience_ms)
        one = ShardManager(store, counting_shards(), Member, options)
        one.refuse([LETTER], "lines")
        for clock_ms[0] in (0, 5_000, 10_000):
            assert not await one.checkpoint(open_attempts=False)
            assert one.fault is None
        clock_ms[0] = 10_001
        assert not await one.checkpoint(open_attempts=False)
        return one.fault

    assert isinstance(asyncio.run(go(10_000)), StoreFull)
    assert asyncio.run(go(None)) is None


def test_tables_are_stored_in_one_order_whatever_each_shard_has() -> None:
    """Whoever reads a job's row finds its costs, and whoever reads books the letters that they count."""

    class Noted(MemoryStore):
        def __init__(self) -> None:
            super().__init__()
            self.order: list[str] = []

        def insert(self, table: str, rows: pa.Table, token: str) -> None:
            self.order.append(table)
            super().insert(table, rows, token)

    names = [{JOBS, BOOKS}, {JOB_MINUTES, DEAD_LETTERS, JOBS}]
    store = Noted()
    taken = []
    for number, its in enumerate(names):
        shard = CountingShard(number, PriceBook.empty(), State())
        versions = VersionClock(0, 1)
        owned = OwnedShard(number, as_shard(shard), versions, Takeover(0, versions.next()))
        tables = {name: rows(name, {"shard": number} if name != DEAD_LETTERS else {}) for name in sorted(its)}
        taken.append(InFlightCheckpoint(owned, point(versions.next(), tables, b"{}", {})))
    assert asyncio.run(shard_manager(store).checkpointer.run(lambda: taken))
    order = [name for name in store.order if name in set().union(*names)]
    assert order == [JOB_MINUTES, JOBS, DEAD_LETTERS, BOOKS]


def test_a_commit_that_was_refused_is_made_again_although_nothing_new_comes() -> None:
    class Refusing(Member):
        answers = iter((False, False, True))
        committed: ClassVar[list[Mapping[TP, int]]] = []

        async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
            self.committed.append(dict(next_offsets))
            return next(self.answers)

    consumer = Refusing()
    keeping = ShardManager(
        MemoryStore(), counting_shards(), lambda: consumer, ShardManagerOptions("t.", lambda: 0, lambda: 0)
    )

    async def go() -> None:
        keeping.assigned({TP(f"t.{topic}", 0) for topic in SHARD_TOPICS}, 1)
        await keeping.restore_missing()
        await keeping.ingest_batches(LogBatch("gpu", 0, 0, 1, [LogRecord(0, 0, b"1")]))
        for _ in range(5):
            assert await keeping.checkpoint(open_attempts=False)

    asyncio.run(go())
    assert consumer.committed == [{TP("t.gpu", 0): 1}] * 3
    assert keeping.totals.commits_refused == 2


def test_a_worker_that_is_out_stops_in_the_middle_of_a_flight() -> None:
    """Frozen between two tables: when it wakes its shards are others', who look for late rows only for a while."""
    consumer = Member()

    class Freezing(MemoryStore):
        def insert(self, table: str, rows: pa.Table, token: str) -> None:
            super().insert(table, rows, token)
            consumer.counted_on = consumer.counted_on and not freezes

    async def life(store: MemoryStore) -> None:
        one = ShardManager(
            store, counting_shards(), lambda: consumer, ShardManagerOptions("t.", lambda: 0, lambda: 0)
        )
        one.assigned({TP(f"t.{topic}", 0) for topic in SHARD_TOPICS}, 1)
        await one.restore_missing()
        await one.ingest_batches(LogBatch("gpu", 0, 0, 1, [LogRecord(0, 0, b"no number")]))
        freezes.append(True)
        assert not await one.checkpoint(open_attempts=False)
        assert (store.select(DEAD_LETTERS).num_rows, store.snapshots.load(0).blobs) == (1, [])
        freezes.clear()
        consumer.counted_on = True
        assert await one.checkpoint(open_attempts=False)
        assert store.snapshots.load(0).blobs

    freezes: list[bool] = []
    asyncio.run(life(Freezing()))


def test_rows_are_stored_each_time_a_snapshot_and_its_offsets_each_third_time() -> None:
    class Noting(Member):
        committed: ClassVar[list[Mapping[TP, int]]] = []

        async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
            self.committed.append(dict(next_offsets))
            return True

    store, consumer = MemoryStore(), Noting()
    topics = {TP(f"t.{topic}", 0) for topic in SHARD_TOPICS}

    def begun() -> ShardManager:
        return ShardManager(
            store, counting_shards(), lambda: consumer, ShardManagerOptions("t.", lambda: 0, lambda: 0)
        )

    async def go() -> None:
        one = begun()
        one.assigned(topics, 1)
        await one.restore_missing()
        for offset in range(7):
            await one.ingest_batches(
                LogBatch("gpu", 0, offset, offset + 1, [LogRecord(offset, 0, b"no number")])
            )
            await one.tick(3)
            assert store.select(DEAD_LETTERS).num_rows == offset + 1
        assert consumer.committed == [{TP("t.gpu", 0): 3}, {TP("t.gpu", 0): 6}]

        other = begun()
        other.assigned(topics, 2)
        await other.restore_missing()
        assert other.start_offsets(topics)[TP("t.gpu", 0)] == 6

        await one.ingest_batches(LogBatch("gpu", 0, 7, 8, [LogRecord(7, 0, b"1")]))
        assert await one.final_checkpoint()
        assert consumer.committed[-1] == {TP("t.gpu", 0): 8}, "the last one has a snapshot"

    asyncio.run(go())
