"""A watch over a shard manager, a consumer and a reader of which a test says everything, and time moved by hand."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from streams.clock import ManualClock
from streams.config.settings import KafkaSettings
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.books import Books, Tally
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP, ConsumerNotStarted
from streams.worker.health.probe import ProbeResult
from streams.worker.health.stall import StallLimits
from streams.worker.health.status import StatusCollector
from streams.worker.health.worker_status import WorkerStatus
from streams.worker.ingest.backpressure import BackpressureGate
from streams.worker.ingest.ingest_counts import IngestCounts
from streams.worker.log_time import LogTime
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.versions import VersionClock
from streams.worker.storing.checkpointer import StoredTotals
from tests.worker.fakes import CountingShard, State, as_shard

NOW_MS = 1_800_000_000_000
KAFKA = KafkaSettings(bootstrap_servers="kafka-1:9092", group_id="g", session_timeout_ms=10_000)


class Feeding:
    """Whoever reads again what was lost."""

    def __init__(self) -> None:
        self.refetches = self.rewinds = 0
        self.ingest_counts = IngestCounts()


class Keeper:
    """Shards that are held, and what was stored."""

    def __init__(self) -> None:
        self.owned: dict[int, OwnedShard] = {}
        self.totals = StoredTotals()
        self.backlog_bytes = 0
        self.backpressure = BackpressureGate(100)
        self.ingest = Feeding()

    def hold(
        self, number: int, counted: int = 0, newest_ms: int = 0, tallies: Mapping[str, object] | None = None
    ) -> OwnedShard:
        shard = CountingShard(number, PriceBook.empty(), State(count={"jobs": counted}))
        if tallies is not None:
            shard.tallies = cast("dict[str, Tally]", tallies)
        shard.position.newest_ms = {"jobs": newest_ms, "gpu": -(2**62)}
        self.owned[number] = OwnedShard(number, as_shard(shard), VersionClock(0, 1), Takeover(0, 1))
        return self.owned[number]


class Consumer:
    """A member or not, with partitions."""

    def __init__(self) -> None:
        self.member = True
        self.numbers: set[int] = set()
        self.started = True
        self.ends: dict[tuple[str, int], LogEnd] = {}

    def is_member(self) -> bool:
        if not self.started:
            raise ConsumerNotStarted("not yet")
        return self.member

    def assignment(self) -> set[TP]:
        return {TP(topic, number) for number in self.numbers for topic in ("jobs", "gpu")}

    def log_end(self, tp: TP) -> LogEnd | None:
        if not self.started:
            raise ConsumerNotStarted("not yet")
        return self.ends.get((tp.topic, tp.partition))


class Reader:
    """Of prices and controls."""

    def __init__(self) -> None:
        self.books = Books()
        self.next: Mapping[str, int] = {}
        self.read_to: Mapping[str, int] = {}
        self.newest_ms: Mapping[str, int] = {}


class Scene:
    def __init__(self) -> None:
        self.shard_manager, self.consumer, self.clock = Keeper(), Consumer(), ManualClock(NOW_MS)
        self.log_time = LogTime(self.clock)
        self.probed = ProbeResult()
        self.reader = Reader()
        self.watch = StatusCollector(
            self.shard_manager,
            lambda: self.consumer,
            KAFKA,
            self.log_time,
            reader=self.reader,
            probed=lambda: self.probed,
            limits=StallLimits(not_ready_ms=60_000, restart_ms=300_000),
        )

    def look(self) -> WorkerStatus:
        return self.watch.collect()

    def wait(self, seconds: int) -> WorkerStatus:
        """Look each second, as a worker does."""
        for _ in range(seconds):
            self.clock.advance(1_000)
            status = self.look()
        return status

    def failing(self) -> dict[str, str]:
        return {check.name: check.detail for check in self.look().checks if not check.ok}
