"""Every record that is fetched goes somewhere: folded, trimmed, not ours, given back, or it waits."""

from __future__ import annotations

import asyncio

from streams.engine.batch import LogBatch, LogRecord
from streams.worker.ingest.ingest_counts import TopicCounts
from streams.worker.ingest.watermarks import Mark, ReplayWatermarks
from streams.worker.shard_manager import ShardManager
from tests.worker.test_shard_manager import Bench


def flow(shard_manager: ShardManager, number: int = 0) -> TopicCounts:
    found = shard_manager.ingest.ingest_counts.of("gpu", number)
    owned = shard_manager.owned.get(number)
    waiting = 0 if owned is None else owned.waiting_records("gpu")
    assert found.fetched == found.folded + found.trimmed + found.not_mine + found.given_back + waiting
    return found


def test_what_was_folded_before_is_trimmed_and_what_is_behind_a_hole_is_given_back() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 5)
        await bench.feed(0, 3, 7)
        assert flow(bench.shard_manager) == TopicCounts(fetched=9, folded=7, trimmed=2)
        await bench.feed(0, 9, 12)
        assert flow(bench.shard_manager) == TopicCounts(fetched=12, folded=7, trimmed=2, given_back=3)
        assert bench.shard_manager.owned[0].folded == {"gpu": 7}

    asyncio.run(go())


def test_what_comes_for_a_shard_that_left_is_not_ours() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0, 1}, 1)
        await bench.feed(1, 0, 2)
        await bench.own({0}, 2)
        await bench.feed(1, 2, 5)
        assert flow(bench.shard_manager, 1) == TopicCounts(fetched=5, folded=2, not_mine=3)
        assert bench.shard_manager.ingest.ingest_counts.not_mine == 3

    asyncio.run(go())


def test_what_waits_for_its_tick_is_given_back_when_it_is_read_again_and_left_when_the_shard_goes() -> None:
    async def go() -> None:
        bench = Bench()
        watermarks = ReplayWatermarks()
        bench.shard_manager.ingest._watermarks = watermarks
        await bench.own({0}, 1)
        watermarks.mark = Mark(5_000, {("gpu", 0): 1})

        async def take(start: int) -> None:
            records = [LogRecord(start, 5_000, b"1"), LogRecord(start + 1, 15_000, b"1")]
            await bench.shard_manager.ingest_batches(LogBatch("gpu", 0, start, start + 2, records))

        await take(0)
        assert flow(bench.shard_manager) == TopicCounts(fetched=2, folded=1)
        await bench.own({0}, 2)  # still ours, and read again from where it is
        assert flow(bench.shard_manager) == TopicCounts(fetched=2, folded=1, given_back=1)
        await take(1)
        await bench.own({1}, 3)
        assert flow(bench.shard_manager) == TopicCounts(fetched=4, folded=2, given_back=1, not_mine=1)

    asyncio.run(go())
