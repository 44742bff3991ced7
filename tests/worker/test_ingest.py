"""Shards are fed in log order with ticks between; what is too far ahead is not read on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import cast

import pytest

from streams.clock import ManualClock
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.sequencer import Ticks
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.ingest.ingest import Ingest
from streams.worker.ingest.watermarks import KafkaWatermarks, Mark, ReplayWatermarks
from streams.worker.log_time import LogTime
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import LogConsumer
from streams.worker.shards.versions import VersionClock
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover.rehydrate import Rehydrator
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import an_alert
from tests.worker.fakes import CountingShard, State, as_shard

FAR = 1_000_000_000


class Lab:
    def __init__(self, *, hurries_alerts: bool = True) -> None:
        options = ShardManagerOptions(
            topic_prefix="x.",
            as_of_ms=lambda: 0,
            now_ms=lambda: 0,
            caught_up_bytes=MUCH_BYTES,
            hurries_alerts=hurries_alerts,
        )
        store = MemoryStore()
        consumer = cast("Callable[[], LogConsumer]", lambda: None)
        rehydrator = Rehydrator(store, Checkpointer(store, consumer, options, None), lambda: False)
        self.shard = CountingShard(3, PriceBook.empty(), State())
        self.owned = OwnedShard(3, as_shard(self.shard), VersionClock(0, 0), Takeover(0, 1))
        self.holders = {3: self.owned}
        self.watermarks = ReplayWatermarks()
        self.told: list[int | None] = []
        self.ingest = Ingest(
            rehydrator,
            consumer,
            options,
            self.watermarks,
            self.holders,
            lambda owned: self.told.append(owned.align.tick_ms),
        )

    async def take(self, topic: str, start: int, *log_ms: int) -> None:
        records = [LogRecord(start + at, ms, b"1") for at, ms in enumerate(log_ms)]
        await self.ingest.accept(self.owned, LogBatch(topic, 3, start, start + len(records), records))

    @property
    def folded(self) -> int:
        return sum(self.shard.state.count.values())


#: Three records, with what becomes of each.
MUCH_BYTES = 3 * (1 + 64)


def run(work: Callable[[Lab], Awaitable[None]]) -> None:
    async def go() -> None:
        await work(Lab())

    asyncio.run(go())


def test_what_is_after_a_tick_waits_until_the_tick_is_judged() -> None:
    async def work(lab: Lab) -> None:
        lab.watermarks.mark = Mark(5_000, {("jobs", 3): 2})
        await lab.take("jobs", 0, 5_000, 12_000)
        assert (lab.folded, lab.shard.judged) == (1, [])
        lab.watermarks.mark = Mark(25_000, {("jobs", 3): 2})
        await lab.ingest.advance_all()
        assert lab.folded == 2
        assert lab.shard.judged == [Ticks(10_000, 10_000), Ticks(20_000, 20_000)]

    run(work)


@pytest.mark.parametrize(("records", "sent", "urgent"), [(3, 3, True), (2, 2, False), (3, 4, False)])
def test_much_that_was_waiting_is_stored_as_soon_as_its_end_is_read(
    records: int, sent: int, *, urgent: bool
) -> None:
    async def work(lab: Lab) -> None:
        lab.watermarks.mark = Mark(5_000, {("jobs", 3): records})
        await lab.take("jobs", 0, *[4_000] * (records - 1))
        assert not lab.ingest.urgent.is_set()
        lab.watermarks.mark = Mark(5_000, {("jobs", 3): sent})
        await lab.take("jobs", records - 1, 4_000)
        assert lab.folded == records
        assert lab.ingest.urgent.is_set() == urgent

    run(work)


@pytest.mark.parametrize("sent", [1, 2])
def test_the_rest_of_a_log_that_is_stored_at_a_slower_pace_is_stored_at_once(sent: int) -> None:
    async def work(lab: Lab) -> None:
        lab.ingest.awaits_end = True
        lab.watermarks.mark = Mark(5_000, {("jobs", 3): sent})
        assert lab.ingest.is_behind()
        await lab.take("jobs", 0, 4_000)
        assert lab.ingest.is_behind() == (sent > 1)
        assert await lab.ingest.rest(0.001) == (sent == 1)
        assert not await lab.ingest.rest(0.001), "that is told once"

    run(work)


def test_a_batch_behind_a_hole_holds_up_none_of_those_that_came_with_it() -> None:
    async def work(lab: Lab) -> None:
        lab.watermarks.mark = Mark(3_000, {("jobs", 3): 1})
        await lab.take("jobs", 0, 3_000)
        lab.watermarks.mark = Mark(5_000, {("jobs", 3): 2, ("gpu", 3): 9})
        asked: list[tuple[TP, int]] = []

        async def refetch(tp: TP, offset: int) -> None:
            asked.append((tp, offset))

        lab.ingest._consumer = lambda: cast("LogConsumer", SimpleNamespace(refetch=refetch))
        gpu, jobs = (
            LogBatch(topic, 3, start, start + 1, [LogRecord(start, 4_000, b"1")])
            for topic, start in (("gpu", 8), ("jobs", 1))
        )
        await lab.ingest.accept(lab.owned, gpu, jobs)
        assert asked == [(TP("x.gpu", 3), 0)]
        assert lab.shard.state.count == {"jobs": 2}
        assert lab.ingest.ingest_counts.of("gpu", 3).given_back == 1

    run(work)


def test_a_record_that_a_wrong_clock_dates_to_tomorrow_waits_half_a_minute() -> None:
    class Ends:
        end_ms = 5_100

        def log_end(self, tp: TP) -> LogEnd:
            end = 2 if tp.topic == "x.jobs" else 0
            return LogEnd(end, end, self.end_ms)

    async def work(lab: Lab) -> None:
        ends, tomorrow_ms, clock = Ends(), 86_400_000, ManualClock()
        clock.advance(ends.end_ms)
        lab.ingest._watermarks = KafkaWatermarks(lambda: ends, "x.", LogTime(clock))
        await lab.take("jobs", 0, 5_000, tomorrow_ms)
        assert lab.folded == 1
        ends.end_ms = 40_100
        clock.advance(35_000)
        await lab.ingest.advance_all()
        assert lab.folded == 2
        assert lab.shard.judged[-1].last_ms == 40_000

    run(work)


@pytest.mark.parametrize(
    ("jobs", "ticks_at_once"), [(0, 50_000), (5, 40_000), (100, 2_000), (100_000, 2_000)]
)
def test_a_long_pause_is_judged_in_parts_with_room_for_heartbeats(jobs: int, ticks_at_once: int) -> None:
    async def work(lab: Lab) -> None:
        lab.shard.jobs_live = jobs
        end_ms = ticks_at_once * 25_000  # two parts and a half
        lab.watermarks.mark = Mark(end_ms, {("jobs", 3): 1})
        await lab.take("jobs", 0, 10_000)
        whole_ms = (ticks_at_once - 1) * 10_000
        assert [ticks.last_ms - ticks.first_ms for ticks in lab.shard.judged] == [
            whole_ms,
            whole_ms,
            ticks_at_once * 5_000 - 10_000,
        ]

    run(work)


def test_a_topic_far_ahead_of_the_others_is_not_read_on() -> None:
    async def work(lab: Lab) -> None:
        lab.watermarks.mark = Mark(-1, {})
        await lab.take("gpu", 0, *range(FAR, FAR + 50_001))
        assert {tp.topic for tp in lab.ingest.too_far_ahead()} == {"x.gpu"}
        lab.watermarks.mark = Mark(FAR + 60_000, {("gpu", 3): 50_001})
        await lab.ingest.advance_all()
        assert lab.ingest.too_far_ahead() == set()
        assert lab.folded == 50_001

    run(work)


def test_a_shard_that_is_gone_is_neither_fed_nor_judged() -> None:
    async def work(lab: Lab) -> None:
        del lab.holders[3]
        lab.watermarks.mark = Mark(25_000, {("jobs", 3): 1})
        await lab.take("jobs", 0, 5_000)
        assert (lab.folded, lab.shard.judged) == (0, [])

    run(work)


def test_what_is_urgent_ends_the_rest() -> None:
    async def work(lab: Lab) -> None:
        lab.shard.is_storing_urgent = True
        lab.watermarks.mark = Mark(25_000, {("jobs", 3): 1})
        resting = asyncio.ensure_future(lab.ingest.rest(60))
        await lab.take("jobs", 0, 5_000)
        await asyncio.wait_for(resting, 5)

    run(work)


@pytest.mark.parametrize("hurries", [True, False])
def test_a_changed_alert_is_urgent_only_where_somebody_waits_for_it(*, hurries: bool) -> None:
    async def go() -> None:
        lab = Lab(hurries_alerts=hurries)
        lab.shard.alerts = [an_alert()]
        lab.watermarks.mark = Mark(25_000, {("jobs", 3): 1})
        await lab.take("jobs", 0, 5_000)
        assert lab.shard.judged
        assert lab.ingest.urgent.is_set() == hurries

    asyncio.run(go())


def test_alerts_are_told_at_once_of_ticks_of_now_only() -> None:
    async def work(lab: Lab) -> None:
        lab.watermarks.mark = Mark(FAR, {("jobs", 3): 2})
        await lab.take("jobs", 0, FAR - 100_000, FAR - 60_000)  # ticks between the two are long past
        assert lab.told == [FAR + 10_000]
        lab.watermarks.mark = Mark(FAR + 12_000, {("jobs", 3): 2})
        await lab.ingest.advance_all()
        assert lab.told == [FAR + 10_000, FAR + 20_000]

    run(work)


@pytest.mark.parametrize(("clock_ms", "until_ms"), [(3_000, 7_000), (10_000, 0), (12_000, 0)])
def test_how_long_until_the_next_tick(clock_ms: int, until_ms: int) -> None:
    async def work(lab: Lab) -> None:
        assert lab.ingest.until_tick_ms() is None
        lab.watermarks.mark = Mark(3_000, {("jobs", 3): 1})
        await lab.take("jobs", 0, 3_000)
        lab.watermarks.mark = Mark(clock_ms, {("jobs", 3): 1})
        assert lab.ingest.until_tick_ms() == until_ms

    run(work)


def test_nobody_looks_at_now_while_ticks_of_the_past_are_to_be_judged() -> None:
    async def work(lab: Lab) -> None:
        lab.owned.write_interim_rates(5_000)
        lab.watermarks.mark = Mark(3_000, {("jobs", 3): 2})
        await lab.take("jobs", 0, 3_000, 30_000)
        lab.owned.write_interim_rates(31_000)  # the tick at 10 s waits
        assert lab.shard.looks == []
        lab.watermarks.mark = Mark(31_000, {("jobs", 3): 2})
        await lab.ingest.advance_all()
        lab.owned.write_interim_rates(31_000)
        lab.owned.write_interim_rates(41_000)  # beyond the next tick
        assert lab.shard.looks == [31_000]

    run(work)
