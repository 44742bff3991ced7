"""A watch over a keeper, a consumer and a reader of which a test says everything, and time moved by hand.

It must not hold logic: what is looked at is what a test set.
"""

from __future__ import annotations

from collections.abc import Mapping

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

from streams.agents.checkpointer import Totals
from streams.agents.held import Held, Takeover
from streams.agents.intake import Intake
from streams.agents.log_time import LogTime
from streams.agents.outlook import Sight
from streams.agents.room import Room
from streams.agents.stall import Limits
from streams.agents.status import Watch
from streams.agents.versions import VersionClock
from streams.clock import ManualClock
from streams.config import KafkaSettings
from streams.pipeline.books import Books
from streams.pricing.book import PriceBook
from streams.transport.answers import LogEnd
from streams.web.status import WorkerStatus
from tests.agents.fakes import CountingShard, State

NOW_MS = 1_800_000_000_000
KAFKA = KafkaSettings(bootstrap_servers="kafka-1:9092", group_id="g", session_timeout_ms=10_000)


class Feeding:
    """Whoever reads again what was lost."""

    def __init__(self) -> None:
        self.refetches = self.rewinds = 0
        self.intake = Intake()


class Keeper:
    """Shards that are held, and what was stored."""

    def __init__(self) -> None:
        self.held: dict[int, Held] = {}
        self.totals = Totals()
        self.backlog_bytes = 0
        self.room = Room(100)
        self.feeding = Feeding()

    def hold(
        self, number: int, counted: int = 0, newest_ms: int = 0, tallies: Mapping[str, object] | None = None
    ) -> Held:
        shard = CountingShard(number, PriceBook.empty(), State(count={"jobs": counted}))
        if tallies is not None:
            shard.tallies = tallies  # type: ignore[attr-defined]  # as the engine's shards
        shard.newest_ms = {"jobs": newest_ms, "gpu": -(2**62)}  # type: ignore[attr-defined]  # as the engine's shards
        self.held[number] = Held(number, shard, VersionClock(0, 1), Takeover(0, 1))
        return self.held[number]


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
        self.keeper, self.consumer, self.clock = Keeper(), Consumer(), ManualClock(NOW_MS)
        self.log_time = LogTime(self.clock)
        self.sight = Sight()
        self.reader = Reader()
        self.watch = Watch(
            self.keeper,
            lambda: self.consumer,
            KAFKA,
            self.log_time,
            reader=self.reader,
            sight=lambda: self.sight,
            limits=Limits(not_ready_ms=60_000, restart_ms=300_000),
        )

    def look(self) -> WorkerStatus:
        return self.watch.look()

    def wait(self, seconds: int) -> WorkerStatus:
        """Look each second, as a worker does."""
        for _ in range(seconds):
            self.clock.advance(1_000)
            status = self.look()
        return status

    def failing(self) -> dict[str, str]:
        return {check.name: check.detail for check in self.look().checks if not check.ok}
