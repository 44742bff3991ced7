"""Real workers on a real Kafka in front of a store that fails on command, and the tables against the oracle's.

What is stored at the end is the oracle's, row by row.
"""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from urllib.request import urlopen

import orjson
from prometheus_client.parser import text_string_to_metric_families

from sinks.clickhouse import ClickHouseStore, Target
from streams.config.settings import KafkaSettings
from streams.transport.admin import connect, create_topics
from tests.chaos.fleet import PLANTED, Event, Fleet
from tests.chaos.judged import judge
from tests.chaos.log import Feed, Offsets, read_back
from tests.chaos.run import worker_env
from tests.chaos.stored import money, money_of, stored_dead, stored_tables
from tests.chaos.workers import Workers
from tests.kafka.broker import shared_broker
from tests.property.compare import differences

PARTITIONS = 3
PATIENCE_S = 120.0
NOTE_BYTES = 50_000


@dataclass
class Rig:
    """One test's log, published piece by piece, and its workers."""

    kafka: KafkaSettings
    fleet: Fleet
    workers: Workers
    web_port: int
    sent: int = 0
    events: Iterator[Event] = field(init=False)

    def __post_init__(self) -> None:
        self.events = self.fleet.events()

    def publish(self, count: int | None = None) -> int:
        """Send the next so many events, or all that are left; returns when they are acknowledged."""
        return self._publish(self.events if count is None else islice(self.events, count))

    def publish_heavy(self, count: int) -> int:
        """As `publish`, but that they weigh a hundred times as much, however few rows come of them."""
        return self._publish(map(_heavy, islice(self.events, count)))

    def _publish(self, events: Iterable[Event]) -> int:
        feed = Feed(self.kafka, events, 0)
        feed.run()
        assert feed.fault is None, feed.fault
        self.sent += feed.sent
        return feed.sent

    def metrics(self) -> dict[str, float]:
        """The worker's own figures; those with labels are summed."""
        with urlopen(f"http://127.0.0.1:{self.web_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0.0) + sample.value
        return found

    def wait_for(self, name: str, least: float, patience_s: float = PATIENCE_S) -> float:
        """Wait until a metric is at least so much; returns it."""
        deadline_s = time.monotonic() + patience_s
        while (value := self.metrics().get(name, 0.0)) < least:
            assert time.monotonic() < deadline_s, f"{name} is {value}, not {least}\n{self.said()[-3000:]}"
            time.sleep(0.1)
        return value

    def wait_paused(self, looks: int = 6, meanwhile: Callable[[], None] = lambda: None) -> dict[str, float]:
        """Wait until reading pauses and, for so many looks, nothing is metered; returns the figures of the last.

        `meanwhile` is called before each look.

        While a store is slow a flight under way can be too much for a moment; and what waits weighs less once it is in
        one, which is known when that has failed: until then reading pauses for less than the limit, and goes on after.
        """
        deadline_s, seen = time.monotonic() + PATIENCE_S, list[float]()
        while True:
            meanwhile()
            found = self.metrics()
            records = found["trainfare_records_total"]
            full = found["trainfare_backlog_bytes"] >= found["trainfare_backlog_limit_bytes"]
            paused = full and found["trainfare_reading_paused"]
            seen = [*seen, records] if paused and records in (seen or [records]) else []
            if len(seen) == looks:
                return found
            assert time.monotonic() < deadline_s, f"{found}\n{self.said()[-3000:]}"
            time.sleep(0.1)

    def wait_metered(self) -> None:
        """Wait until everything sent is metered and committed: each shard has an owner that reads."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.behind():
            assert time.monotonic() < deadline_s, self.said()[-3000:]
            time.sleep(0.1)

    def wait_reading(self) -> None:
        """Wait until reading does not pause."""
        deadline_s = time.monotonic() + PATIENCE_S
        while self.metrics()["trainfare_reading_paused"]:
            assert time.monotonic() < deadline_s, self.said()[-3000:]
            time.sleep(0.1)

    def said(self) -> str:
        """The lines of all workers."""
        return "\n".join(worker.text() for worker in self.workers.lives)

    def behind(self) -> int:
        """Records that are not metered and committed."""
        offsets = Offsets(self.kafka)
        try:
            return offsets.behind()
        finally:
            offsets.close()

    def assert_exact(self, target: Target) -> None:
        """Wait until everything sent is stored, then compare every table with the oracle's."""
        store = ClickHouseStore(target)
        try:
            judged = judge(read_back(self.kafka), self.fleet.as_of_ms)
            assert judged.events == self.sent
            deadline_s = time.monotonic() + PATIENCE_S
            while (self.workers.alive and self.behind()) or money(store) != money_of(judged.tables):
                assert time.monotonic() < deadline_s, (
                    f"{money(store)} is not {money_of(judged.tables)}\n{self.said()[-3000:]}"
                )
                time.sleep(0.3)
            # The hours of a job that goes on follow its minutes with the next accrual.
            while found := differences(stored_tables(store), judged.tables, counts=False):
                assert time.monotonic() < deadline_s, found[:12]
                time.sleep(0.3)
            assert stored_dead(store) == judged.dead
        finally:
            store.close()


def _heavy(event: Event) -> Event:
    """With a field that nobody knows: samples are kept as the minutes they speak of, other events as they came."""
    if event.topic not in {"jobs", "network", "storage"} or PLANTED in event.value:
        return event
    return event._replace(value=orjson.dumps(orjson.loads(event.value) | {"note": "x" * NOTE_BYTES}))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def rig(directory: Path, store_url: str, *, jobs: int, seconds: int, **env: str) -> Iterator[Rig]:
    """Topics and a group of its own; no worker is started yet."""
    prefix = f"s{uuid.uuid4().hex[:8]}."
    kafka = KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}g",
        partitions=PARTITIONS,
    )
    create_topics(kafka, connect(kafka))
    fleet, port = Fleet(1, jobs, seconds), free_port()
    shared = worker_env(kafka, store_url, 6_000) | {"TRAINFARE_METER_AS_OF_MS": str(fleet.as_of_ms)}
    with Workers(directory, {**shared, "TRAINFARE_WEB_PORT": str(port), **env}) as workers:
        yield Rig(kafka, fleet, workers, port)
