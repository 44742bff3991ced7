"""A cluster to try the meter on, embedded or real, with topics and a group of its own for each test."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field

from confluent_kafka import Consumer, Producer, TopicPartition

from sinks.port import Store
from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.engine.settings import ShardSettings
from streams.replay.broker import EmbeddedBroker
from streams.topics import Topic, full_name, partition_count
from streams.transport.admin import DEAD_LETTER_TOPIC, connect, create_topics
from streams.worker.log_time import LogTime
from streams.worker.meter import LogOrigin, Meter
from streams.worker.options import ShardManagerOptions
from streams.worker.storing.dead_letters import DeadLetterSink
from tests.worker.fakes import counting_shards

PARTITIONS = 2
TIMEOUT_S = 40.0
_names = (f"t{number}." for number in itertools.count(time.time_ns() // 1_000_000))


@dataclass
class Lab:
    """One test's corner of a cluster."""

    kafka: KafkaSettings
    embedded: EmbeddedBroker | None
    checkpoint_interval_ms: int = 100
    meters: list[Meter] = field(default_factory=list)

    def produce(self, topic: str, partition: int, values: Iterable[bytes], timestamp_ms: int = 0) -> None:
        """Append records; returns when they are acknowledged."""
        producer = Producer({"bootstrap.servers": self.kafka.bootstrap_servers, "log_level": 0})
        refused: list[object] = []
        for number, value in enumerate(values):
            producer.produce(
                full_name(topic, self.kafka.topic_prefix),
                value=value,
                key=f"{time.time_ns()}-{number}",  # compacted topics want one
                partition=partition,
                timestamp=timestamp_ms,
                on_delivery=lambda error, _: refused.append(error) if error else None,
            )
        assert producer.flush(10) == 0
        assert not refused

    def meter(
        self,
        store: Store,
        dead_letters: DeadLetterSink | None = None,
        origin: LogOrigin | None = None,
        **options: object,
    ) -> Meter:
        """Make a meter with counting shards."""
        shard_manager = ShardManagerOptions(
            topic_prefix=self.kafka.topic_prefix,
            as_of_ms=lambda: 0,
            now_ms=lambda: time.monotonic_ns() // 1_000_000,
            log_time=LogTime(SystemClock()),
            **{"checkpoint_interval_ms": self.checkpoint_interval_ms, **options},  # type: ignore[arg-type]  # as given
        )
        meter = Meter(
            self.kafka,
            ShardSettings(),
            shard_manager,
            store,
            counting_shards(),
            dead_letters=dead_letters,
            origin=origin,
        )
        self.meters.append(meter)
        return meter

    def committed(self, topic: str, partition: int) -> int:
        """The group's committed offset; -1001 without one."""
        consumer = Consumer(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": self.kafka.group_id}
        )
        name = full_name(topic, self.kafka.topic_prefix)
        found = consumer.committed([TopicPartition(name, partition)], timeout=10)
        consumer.close()
        return int(found[0].offset)


def run(meter: Meter, work: Callable[[], Awaitable[None]]) -> None:
    """Run a meter until the work is done."""

    async def go() -> None:
        await asyncio.wait_for(meter.run(work), TIMEOUT_S)

    asyncio.run(go())


async def until(ready: Callable[[], bool]) -> None:
    """Wait, but not for ever."""
    deadline_s = time.monotonic() + TIMEOUT_S
    while not ready():
        assert time.monotonic() < deadline_s, "did not come about in time"
        await asyncio.sleep(0.01)


def folded(meter: Meter, topic: str, partition: int) -> int:
    """How far a shard has read."""
    owned = meter.shard_manager.owned.get(partition)
    return 0 if owned is None else owned.shard.position.next.get(topic, 0)


def make_lab(bootstrap_servers: str, embedded: EmbeddedBroker | None) -> Lab:
    """Topics with a prefix of their own; the real broker's by the code that users run."""
    prefix = next(_names)
    kafka = KafkaSettings(
        bootstrap_servers=bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}group",
        partitions=PARTITIONS,
        fetch_min_bytes=1,
        heartbeat_interval_ms=200,
        # A mock cluster ends the process when its last member leaves; a static member does not say that it leaves, and
        # the next one waits for the end of its session.
        session_timeout_ms=2_000 if embedded is not None else 6_000,
        group_instance_id="worker" if embedded is not None else None,
    )
    if embedded is None:
        create_topics(kafka, connect(kafka))
    else:
        for topic in Topic:
            embedded.create_topic(full_name(topic, prefix), partition_count(topic, PARTITIONS))
        embedded.create_topic(full_name(DEAD_LETTER_TOPIC, prefix), 1)
    return Lab(kafka, embedded)
