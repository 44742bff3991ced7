"""What a worker watches itself by is wired to its meter, and ends with it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sinks.port import Store
from streams.clock import ManualClock
from streams.config.live import CanarySettings
from streams.config.settings import KafkaSettings
from streams.selfcheck.alerts import self_watch
from streams.selfcheck.alerts.self_watch import SelfWatch
from streams.worker.log_time import LogTime
from streams.worker.meter import Meter
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, run
from tests.selfcheck.test_self_alerts import Life, stored
from tests.worker.lab import until


def meter_of(life: Life) -> Meter:
    """A meter that holds what the life holds, as far as it is watched."""
    shard_manager = SimpleNamespace(
        owned=life.owned, checkpointer=SimpleNamespace(alert_sink=life.office.notifier)
    )
    consumer = SimpleNamespace(is_member=lambda: life.member)
    return cast(
        "Meter",
        SimpleNamespace(
            shard_manager=shard_manager, app=SimpleNamespace(started=True, meter_consumer=consumer)
        ),
    )


async def watched(watch: SelfWatch, ready: Any) -> None:
    task = asyncio.create_task(watch.run())
    await until(ready)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_where_the_canary_was_switched_off_its_page_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(self_watch, "_LOOK_EVERY_S", 0.01)
        store, clock = MemoryStore(), ManualClock(NOW_MS)
        await Life(store, clock).hear(True)
        clock.advance(60_000)
        second = Life(store, clock, generation=2)
        watch = SelfWatch(
            meter_of(second), cast("Store", store), KafkaSettings(), CanarySettings(), LogTime(clock)
        )
        await watched(watch, lambda: stored(store)[0]["status"] == "resolved")
        await second.office.work()
        assert second.told == [("canary_wrong", "resolved")]
        assert watch.canary() is None

    run(scenario())


def test_a_fault_in_what_watches_ends_neither_it_nor_the_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(self_watch, "_LOOK_EVERY_S", 0.01)
        asked: list[int] = []

        def verdict() -> None:
            asked.append(1)
            raise RuntimeError("a fault on demand")

        life = Life(MemoryStore(), ManualClock(NOW_MS))
        watch = SelfWatch(
            meter_of(life),
            cast("Store", MemoryStore()),
            KafkaSettings(),
            CanarySettings(),
            LogTime(life.clock),
            verdict,
        )
        await watched(watch, lambda: len(asked) >= 3)

    run(scenario())
