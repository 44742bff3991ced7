"""What the shard manager does with ticks: whom it leaves their alerts to, and when it judges none."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from streams.engine.alerts.alert import Alert
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.shards.ports import NoAlertSink
from tests.notify.scripted_sender import an_alert
from tests.worker.fakes import CountingShard
from tests.worker.test_shard_manager import Bench


def test_alerts_of_a_shard_that_left_while_they_were_stored_are_its_new_owners_to_tell() -> None:
    class Told(NoAlertSink):
        def __init__(self) -> None:
            self.told: list[str] = []

        def offer(self, alerts: Iterable[Alert], shard: int) -> None:
            self.told += [f"{alert.subject_name} of {shard}" for alert in alerts]

    async def go(leaves: bool) -> list[str]:
        bench = Bench()
        await bench.own({0, 1}, 1)
        alert_sink = bench.shard_manager.checkpointer.alert_sink = Told()
        for number in (0, 1):
            await bench.feed(number, 0, 5)
            shard = bench.shard_manager.owned[number].shard
            take = shard.checkpoint

            def with_alert(*args: Any, take: Any = take, number: int = number, **options: Any) -> Any:
                return replace(take(*args, **options), alerts=[an_alert(f"job-{number}")])

            shard.checkpoint = with_alert  # type: ignore[method-assign]  # the stand-in has no alerts of its own
        put = bench.shard_manager.checkpointer._store_flight

        def put_and_lose(*flight: Any) -> None:
            put(*flight)
            if leaves:
                bench.shard_manager.assigned({TP(f"t.{topic}", 1) for topic in SHARD_TOPICS}, 2)

        bench.shard_manager.checkpointer._store_flight = put_and_lose  # type: ignore[method-assign,assignment]  # a rebalance in between
        await bench.shard_manager.checkpoint(open_attempts=False)
        return alert_sink.told

    assert asyncio.run(go(leaves=False)) == ["job-0 of 0", "job-1 of 1"]
    assert asyncio.run(go(leaves=True)) == ["job-1 of 1"]


def test_records_that_come_twice_do_not_wait_for_a_checkpoint_that_nobody_needs() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        await bench.feed(0, 0, 5)
        await bench.shard_manager.tick()
        bench.shard_manager.backpressure.max_bytes = 1
        await bench.feed(0, 0, 5)
        assert not bench.shard_manager.backpressure.is_open
        await bench.shard_manager.tick()
        assert bench.shard_manager.backlog_bytes == 0
        assert bench.shard_manager.backpressure.is_open

    asyncio.run(go())


def test_dead_letters_that_wait_count_in_the_backlog() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        before_bytes = bench.shard_manager.backlog_bytes
        cast("CountingShard", bench.shard_manager.owned[0].shard).refused_bytes = 1_000
        assert bench.shard_manager.backlog_bytes == before_bytes + 1_000

    asyncio.run(go())


def test_what_fills_half_of_the_room_is_stored_before_its_time() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        bench.shard_manager.backpressure.max_bytes = (
            2 * 10 * 2 * 65
        )  # records of a byte, of which each weighs as such and as a sample
        await bench.feed(0, 0, 9)
        assert not bench.shard_manager.ingest.urgent.is_set()
        await bench.feed(0, 9, 10)
        assert bench.shard_manager.ingest.urgent.is_set()
        assert bench.shard_manager.backpressure.is_open

    asyncio.run(go())


def test_no_tick_is_judged_while_too_many_rows_wait_for_the_store() -> None:
    async def go() -> None:
        bench = Bench()
        await bench.own({0}, 1)
        advanced: list[int] = []

        async def advance() -> None:
            advanced.append(bench.shard_manager.backlog_bytes)

        bench.shard_manager.ingest.advance_all = advance  # type: ignore[method-assign]  # only how often counts
        shard = cast("CountingShard", bench.shard_manager.owned[0].shard)
        await bench.shard_manager.judge_due()
        shard.rows_waiting = 3_000_000  # the store is away
        await bench.shard_manager.judge_due()
        await bench.shard_manager.judge_due()
        assert len(advanced) == 2
        shard.rows_waiting = 0
        await bench.shard_manager.tick()
        await bench.shard_manager.judge_due()
        assert len(advanced) == 3

    asyncio.run(go())
