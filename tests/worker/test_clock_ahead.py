"""A worker whose clock is wrong, through what feeds its shards: no tick that the log has not reached, and alerts after it."""

from __future__ import annotations

import asyncio

from streams.clock import ManualClock
from streams.engine.batch import LogBatch, LogRecord
from streams.selfcheck.alerts.clock_alerts import ClockAlerts
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.ingest.watermarks import KafkaWatermarks
from streams.worker.log_time import LogTime
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import NOW_MS, run
from tests.selfcheck.test_self_alerts import Life, stored
from tests.worker.scene import Scene
from tests.worker.test_ingest import Lab
from tests.worker.test_log_time import HOUR_MS, Clocks


class Worker:
    """Its shard is fed from a log that has a record each second, and is read to its end."""

    def __init__(self) -> None:
        self.clocks = Clocks()
        self.lab = Lab()
        self.log_time = LogTime(self.clocks)
        self.answered: LogEnd | None = None
        self.lab.ingest._watermarks = KafkaWatermarks(lambda: self, "x.", self.log_time)
        self.read = 0

    def log_end(self, tp: TP) -> LogEnd | None:
        end = self.read if tp.topic == "x.jobs" else 0
        return LogEnd(end, end, self.clocks.monotonic_ms())

    async def live(self, seconds: int) -> None:
        for _ in range(seconds):
            self.clocks.true_ms += 1_000
            record = LogRecord(self.read, self.clocks.true_ms - 20, b"1")
            self.read += 1
            await self.lab.ingest.accept(
                self.lab.owned, LogBatch("jobs", 3, self.read - 1, self.read, [record])
            )
            await self.lab.ingest.advance_all()

    @property
    def judged_ms(self) -> int:
        return self.lab.shard.judged[-1].last_ms


def test_a_clock_two_hours_ahead_for_twenty_seconds_judges_nothing_early_and_ends_no_alerting() -> None:
    async def scenario() -> None:
        worker = Worker()
        await worker.live(30)
        for wrong_ms in (2 * HOUR_MS, 0, -2 * HOUR_MS, 0, 27 * 365 * 24 * HOUR_MS, 0):
            worker.clocks.wrong_ms = wrong_ms
            await worker.live(20)
            assert worker.clocks.true_ms - 11_000 < worker.judged_ms <= worker.clocks.true_ms
        assert worker.lab.ingest.rewinds == 0

    asyncio.run(scenario())


def test_a_snapshot_that_is_ahead_of_the_log_goes_back_to_it() -> None:
    """It was stored by a worker whose clock was wrong; this one's is right, and so is that of one after a restart."""

    async def scenario() -> None:
        worker = Worker()
        ahead_ms = NOW_MS + 2 * HOUR_MS
        worker.lab.owned.align.tick_ms = worker.lab.shard.position.tick_ms = ahead_ms
        worker.lab.ingest.began(worker.lab.owned)
        await worker.live(30)
        assert worker.lab.ingest.rewinds == 1
        assert NOW_MS < worker.judged_ms <= worker.clocks.true_ms

    asyncio.run(scenario())


def test_a_shard_that_is_less_than_a_minute_ahead_waits() -> None:
    async def scenario() -> None:
        worker = Worker()
        worker.lab.owned.align.tick_ms = worker.lab.shard.position.tick_ms = NOW_MS + 50_000
        await worker.live(30)
        assert (worker.lab.ingest.rewinds, worker.lab.shard.judged) == (0, [])
        await worker.live(30)
        assert worker.judged_ms >= NOW_MS + 50_000

    asyncio.run(scenario())


def live(log_time: LogTime, clock: ManualClock, true_ms: int) -> None:
    """A record that was not there a second ago."""
    clock.advance(1_000)
    log_time.observe(true_ms, true_ms, clock.monotonic_ms() - 1_000)


def test_readiness_says_how_far_the_clock_is_off() -> None:
    scene = Scene()
    live(scene.log_time, scene.clock, NOW_MS - 2 * HOUR_MS)
    assert scene.failing()["clock"].startswith("the clock of this machine is 7,201 s ahead of Kafka's log")
    status = scene.look()
    assert (status.clock_ahead_ms, status.clock_faults, status.shards_rewound) == (7_201_000, 1, 0)


def test_a_wrong_clock_pages_once_and_the_page_ends_with_it() -> None:
    async def scenario() -> None:
        store, clock = MemoryStore(), Clocks()
        life, log_time = Life(store, ManualClock(NOW_MS), shards=2), LogTime(clock)
        alerts = ClockAlerts(log_time, lambda: life.owned, life.alerts)
        for wrong_ms in (0, 2 * HOUR_MS, 2 * HOUR_MS, 0):
            clock.wrong_ms = wrong_ms
            clock.true_ms += 1_000
            log_time.observe(clock.true_ms, clock.true_ms, clock.monotonic_ms() - 1_000)
            alerts.run_once()
            await life.step()
        assert life.told == [("clock_wrong", "firing"), ("clock_wrong", "resolved")]
        (row,) = stored(store)
        assert (row["shard"], row["severity"]) == (0, "page")
        assert row["subject_name"] == "clock of the owner of shard 0"
        assert abs(row["started"].timestamp() * 1000 - NOW_MS) < 10_000, "by the log's time"

    run(scenario())
