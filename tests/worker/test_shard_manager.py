"""What the shard manager keeps over a rebalance, and what it must throw away; without a broker."""

from __future__ import annotations

import asyncio
import gc
import logging
import weakref
from collections.abc import Mapping

import pytest

from streams.engine.batch import LogBatch, LogRecord
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.options import ShardManagerOptions
from streams.worker.shard_manager import ShardManager
from tests.memory_store import MemoryStore
from tests.worker.fakes import CountingShard, counting_shards
from tests.worker.lab import until


class Consumer:
    """Notes what it is asked."""

    def __init__(self) -> None:
        self.member = True
        self.commits: list[Mapping[TP, int]] = []
        self.refetches: list[tuple[TP, int]] = []

    def is_member(self) -> bool:
        return self.member

    async def refetch(self, tp: TP, log_offset: int) -> None:
        self.refetches.append((tp, log_offset))

    async def confirm(self, generation: int) -> bool:
        return self.is_member()

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
        self.commits.append(next_offsets)
        return True


class Bench:
    """A shard manager, its store and its consumer, with a clock that is moved by hand."""

    def __init__(self, store: MemoryStore | None = None, *, alerts_at_once: bool = False) -> None:
        self.store = store or MemoryStore()
        self.consumer = Consumer()
        self.now_ms = 0
        options = ShardManagerOptions("t.", lambda: 0, lambda: self.now_ms, alerts_at_once=alerts_at_once)
        self.shard_manager = ShardManager(self.store, counting_shards(), lambda: self.consumer, options)

    async def own(self, numbers: set[int], generation: int) -> None:
        self.shard_manager.assigned(
            {TP(f"t.{topic}", n) for topic in SHARD_TOPICS for n in numbers}, generation
        )
        await self.shard_manager.restore_missing()

    async def feed(self, number: int, first: int, last: int) -> None:
        records = [LogRecord(offset, 0, b"1") for offset in range(first, last)]
        await self.shard_manager.ingest_batches(LogBatch("gpu", number, first, last, records))

    def next(self, number: int) -> int:
        return self.shard_manager.owned[number].shard.position.next.get("gpu", 0)


def test_a_shard_that_stays_ours_in_the_next_generation_keeps_its_memory() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0, 1}, 4)
        await bench.feed(0, 0, 5)
        await bench.own({0}, 5)
        assert set(bench.shard_manager.owned) == {0}
        assert bench.next(0) == 5

    asyncio.run(go())


def test_after_a_generation_without_us_everything_is_read_from_the_store() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 4)
        await bench.feed(0, 0, 5)
        other = Bench(bench.store)  # another worker owns it in generation 5
        await other.own({0}, 5)
        await other.feed(0, 0, 9)
        await other.shard_manager.tick()
        await bench.own({0}, 6)
        assert bench.next(0) == 9

    asyncio.run(go())


def test_a_worker_that_the_group_has_given_up_stores_nothing() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 5)
        bench.consumer.member = False
        await bench.shard_manager.tick()
        assert not await bench.shard_manager.final_checkpoint()
        assert bench.store.snapshots.load(0).blobs == []
        bench.consumer.member = True
        assert await bench.shard_manager.final_checkpoint()
        assert bench.store.snapshots.load(0).blobs

    asyncio.run(go())


def test_a_failed_checkpoint_is_stored_later_as_it_was_taken() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 5)
        bench.store.fail(1)
        await bench.shard_manager.tick()
        assert bench.consumer.commits == []
        await bench.feed(0, 5, 8)
        await bench.shard_manager.tick()
        assert bench.consumer.commits == [{TP("t.gpu", 0): 5}]
        await bench.shard_manager.tick()
        assert bench.consumer.commits[1] == {TP("t.gpu", 0): 8}

    asyncio.run(go())


def test_a_shard_that_leaves_is_gone_at_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)  # what is captured keeps the fault, and its frames all that they saw

    async def go() -> None:
        bench = Bench(alerts_at_once=True)
        await bench.own({0, 1}, 1)
        for number in (0, 1):
            await bench.feed(number, 0, 5)
        bench.store.fail(1)
        await bench.shard_manager.tick()
        await bench.feed(0, 5, 8)
        await bench.shard_manager.tick()
        left = weakref.ref(bench.shard_manager.owned[0])
        await bench.own({1}, 2)
        await bench.shard_manager.tick()
        # A thread of a pool lets go of what it was given only after it has told that it is done.
        await until(lambda: left() is None)

    gc.collect()
    gc.disable()
    try:
        asyncio.run(go())
    finally:
        gc.enable()


def test_nothing_new_means_no_checkpoint() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.shard_manager.tick()
        assert bench.store.inserts == 0

    asyncio.run(go())


def test_a_shard_that_waits_for_archived_jobs_does_not_hold_up_the_loop() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 1)
        owned = bench.shard_manager.owned[0]
        owned.left_over = owned.repricing = True
        await bench.shard_manager.tick()  # would never come back
        await bench.shard_manager.store_all()
        assert owned.left_over
        owned.repricing = False
        await bench.shard_manager.tick()
        assert not owned.left_over

    asyncio.run(go())


def test_a_hole_is_asked_for_once_a_second_and_given_up_in_words() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 10, 12)
        await bench.feed(0, 12, 14)
        assert bench.consumer.refetches == [(TP("t.gpu", 0), 0)]
        bench.now_ms = 1_000
        await bench.shard_manager.tick()
        assert len(bench.consumer.refetches) == 2
        for bench.now_ms in range(3_000, 31_001, 2_000):
            assert bench.shard_manager.fault is None
            await bench.feed(0, 14, 15)
            await bench.shard_manager.tick()
        assert isinstance(bench.shard_manager.fault, TrainfareError)
        assert "lacks records 0 to 9" in str(bench.shard_manager.fault)

    asyncio.run(go())


def test_a_hole_is_not_given_up_while_nothing_comes() -> None:
    """The broker is away, the store holds reading up, or we were frozen: none of it says what the log lacks."""

    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 10, 12)
        for bench.now_ms in (90_000, 180_000, 300_000):
            await bench.shard_manager.tick()
        await bench.feed(0, 12, 14)
        bench.now_ms = 400_000
        await bench.shard_manager.tick()
        assert bench.shard_manager.fault is None
        assert len(bench.consumer.refetches) == 5
        await bench.feed(0, 0, 14)
        assert (bench.next(0), bench.shard_manager.owned[0].holes) == (14, {})

    asyncio.run(go())


def test_a_batch_of_a_shard_that_is_not_ours_is_left_alone() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(3, 0, 5)
        assert bench.shard_manager.fault is None

    asyncio.run(go())


def test_unfinished_attempts_are_paid_at_their_own_pace() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)

        def opened() -> int:
            shard = bench.shard_manager.owned[0].shard
            assert isinstance(shard, CountingShard)
            return shard.opened

        await bench.shard_manager.tick()
        assert opened() == 0
        bench.now_ms = 10_000
        await bench.shard_manager.tick()
        await bench.shard_manager.tick()
        assert opened() == 1

    asyncio.run(go())


@pytest.mark.parametrize("generation", [2, 7])
def test_versions_of_a_later_owner_are_above_those_before(generation: int) -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 5)
        await bench.shard_manager.tick()
        before = bench.store.snapshots.load(0).version
        await bench.own({0}, generation)
        await bench.feed(0, 5, 6)
        await bench.shard_manager.tick()
        assert bench.store.snapshots.load(0).version > before

    asyncio.run(go())


def test_a_shard_whose_restore_ends_after_the_next_assignment_is_not_taken_in() -> None:
    """While prices are taken in, a restored shard waits; whoever owns it by then reads it from the store."""

    async def go() -> None:
        bench = Bench()
        await bench.shard_manager._one_book.acquire()
        restoring = asyncio.ensure_future(bench.own({0, 1}, 1))
        await until(lambda: bool(bench.shard_manager._one_book._waiters))
        bench.shard_manager.assigned({TP(f"t.{topic}", 1) for topic in SHARD_TOPICS}, 2)
        bench.shard_manager._one_book.release()
        await restoring
        assert bench.shard_manager.owned == {}
        await bench.shard_manager.restore_missing()
        assert set(bench.shard_manager.owned) == {1}

    asyncio.run(go())
