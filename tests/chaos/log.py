"""The log on a real broker: fed at a pace, asked how far it was committed, and read back as it lies there.

What must be refused was marked by whoever made it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from streams.config.settings import KafkaSettings
from streams.topics import SHARD_TOPICS, Topic, full_name, partition_count
from tests.chaos.fleet import PLANTED, Event
from tests.oracle.model import Line

_BURST: Final = 200
_PATIENCE_S: Final = 120.0
_BY_THE_CLOCK: Final = 0  # as librdkafka has it
Place = tuple[str, int]  # topic without prefix, partition


class Feed(threading.Thread):
    """Publishes events `per_s` a second (0: as fast as it goes), keyed, by Java's partitioner.

    With `now_ms` they are appended when it says, where topics keep given times.
    """

    def __init__(
        self,
        kafka: KafkaSettings,
        events: Iterable[Event],
        per_s: float,
        now_ms: Callable[[], int] = lambda: _BY_THE_CLOCK,
    ) -> None:
        super().__init__(daemon=True)
        self._kafka = kafka
        self._now_ms = now_ms
        self._events = events
        self.per_s = per_s
        self.sent = 0
        self.fault: str | None = None
        self._ending = threading.Event()

    def run(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self._kafka.bootstrap_servers,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 20,
                "log_level": 0,
            }
        )
        due_s = time.monotonic()
        for event in self._events:
            if self._ending.is_set():
                break
            while True:
                try:
                    producer.produce(
                        full_name(event.topic, self._kafka.topic_prefix),
                        event.value,
                        event.key,
                        on_delivery=self._delivered,
                        timestamp=self._now_ms(),
                    )
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
            self.sent += 1
            if self.sent % _BURST == 0:
                producer.poll(0)
                if self.per_s:
                    due_s = max(due_s + _BURST / self.per_s, time.monotonic() - 1)
                    time.sleep(max(due_s - time.monotonic(), 0))
        if producer.flush(_PATIENCE_S):
            self.fault = "not all events were delivered"

    def end(self) -> None:
        """Send no more."""
        self._ending.set()
        self.join(_PATIENCE_S)

    def _delivered(self, error: object, _message: object) -> None:
        if error is not None:
            self.fault = str(error)


class Offsets:
    """Where the log ends, and up to where the group has committed; `close` it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._prefix = kafka.topic_prefix
        config = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka.group_id, "log_level": 0}
        self._consumer = Consumer(config)
        self._places = [(str(topic), n) for topic in SHARD_TOPICS for n in range(kafka.partitions)]

    def committed(self) -> dict[Place, int]:
        """Offsets the group has committed; 0 where none is."""
        places = [TopicPartition(full_name(topic, self._prefix), number) for topic, number in self._places]
        found = self._consumer.committed(places, timeout=10)
        return {
            (each.topic.removeprefix(self._prefix), each.partition): max(each.offset, 0) for each in found
        }

    def ends(self) -> dict[Place, int]:
        """Offsets after the last record."""
        return {
            (topic, number): self._consumer.get_watermark_offsets(
                TopicPartition(full_name(topic, self._prefix), number), timeout=10
            )[1]
            for topic, number in self._places
        }

    def behind(self) -> int:
        """How many records are not committed yet; a broker that does not answer counts as one."""
        try:
            ends, committed = self.ends(), self.committed()
        except KafkaException:
            return 1
        return sum(end - committed[place] for place, end in ends.items())

    def committed_sum(self) -> int:
        """All committed offsets together; a broker that does not answer counts as 0."""
        try:
            return sum(self.committed().values())
        except KafkaException:
            return 0

    def close(self) -> None:
        self._consumer.close()


def read_back(kafka: KafkaSettings) -> Mapping[Place, list[Line]]:
    """Every record of every topic as the log has it, by place; its index in the list is its offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "reads-back",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "log_level": 0,
        }
    )
    places = [
        TopicPartition(full_name(topic, kafka.topic_prefix), number, 0)
        for topic in Topic
        for number in range(partition_count(topic, kafka.partitions))
    ]
    ends = {
        (place.topic, place.partition): consumer.get_watermark_offsets(place, timeout=10)[1]
        for place in places
    }
    lines: dict[Place, list[Line]] = {
        (place.topic.removeprefix(kafka.topic_prefix), place.partition): [] for place in places
    }
    consumer.assign(places)
    left = sum(ends.values())
    came_s = time.monotonic()
    while left and time.monotonic() - came_s < _PATIENCE_S:
        for message in consumer.consume(10_000, timeout=1):
            came_s = time.monotonic()
            assert message.error() is None, message.error()
            topic = str(message.topic()).removeprefix(kafka.topic_prefix)
            place = (topic, int(message.partition() or 0))
            assert message.offset() == len(lines[place]), "the log has holes, which this reader does not know"
            value = message.value() or b""
            lines[place].append(Line(topic, value, partition=place[1], valid=PLANTED not in value))
            left -= 1
    consumer.close()
    assert not left, f"{left} records could not be read back"
    return lines
