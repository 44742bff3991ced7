"""What clients of ours need of a log, on each that there is: on disk, embedded in the process, and a real Kafka."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from streams.broker.broker import LocalBroker
from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.replay.broker import EmbeddedBroker
from streams.segmented_log.log import LogOptions
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from streams.transport.partitions import partition_of
from streams.transport.security import librdkafka_config
from streams.worker.reference.reference_reader import first_of
from tests.kafka.broker import shared_broker

PARTITIONS = 3
PATIENCE_S = 20.0


@dataclass
class Log:
    """A log, and clients of it."""

    kafka: KafkaSettings

    def name(self, topic: str) -> str:
        return full_name(topic, self.kafka.topic_prefix)

    def producer(self, **config: Any) -> Producer:
        ours = {"partitioner": "murmur2_random", "enable.idempotence": True, "linger.ms": 5}
        return Producer({**librdkafka_config(self.kafka), **ours, **config})

    def consumer(self) -> Consumer:
        ours = {"group.id": self.kafka.group_id, "enable.auto.commit": False, "auto.offset.reset": "error"}
        return Consumer({**librdkafka_config(self.kafka), **ours, "enable.partition.eof": False})


@pytest.fixture(params=["disk", "embedded", pytest.param("kafka", marks=pytest.mark.kafka)])
def log(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Log]:
    prefix = f"k{uuid.uuid4().hex[:8]}."
    kafka = KafkaSettings(partitions=PARTITIONS, topic_prefix=prefix, group_id=f"{prefix}g")
    if request.param == "disk":
        with LocalBroker(tmp_path, kafka, LogOptions(), SystemClock()) as local:
            yield Log(local.settings())
    elif request.param == "embedded":
        with EmbeddedBroker() as embedded:
            yield Log(embedded.host(kafka, "contract"))
    else:
        kafka = kafka.model_copy(update={"bootstrap_servers": shared_broker().bootstrap_servers})
        create_topics(kafka, connect(kafka))
        log, asking = Log(kafka), Log(kafka).consumer()
        for number in range(PARTITIONS):
            first_of(TopicPartition(log.name("jobs"), number), asking)  # it has a leader then
        asking.close()
        yield log


def produced(log: Log, count: int, **config: Any) -> list[Message]:
    """Acknowledgements of some records of `jobs`."""
    acknowledged: list[Message] = []

    def delivered(error: KafkaError | None, message: Message) -> None:
        assert error is None, error
        acknowledged.append(message)

    producer = log.producer(**config)
    for number in range(count):
        producer.produce(
            log.name("jobs"), b"value-%d" % number, b"key-%d" % (number % 7),
            headers=[("ce-id", b"%d" % number)], on_delivery=delivered,
        )  # fmt: skip
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    return acknowledged


def consumed(log: Log, count: int, partition: Callable[[int], int] = lambda _number: 0) -> list[Message]:
    """Records of `jobs`; `partition` gives the first offset of each."""
    consumer = log.consumer()
    consumer.assign([TopicPartition(log.name("jobs"), n, partition(n)) for n in range(PARTITIONS)])
    found: list[Message] = []
    while len(found) < count:
        messages = consumer.consume(count - len(found), timeout=PATIENCE_S)
        assert messages, f"{len(found)} of {count} records"
        for message in messages:
            assert message.error() is None, message.error()
        found += messages
    consumer.close()
    return found


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent_in_the_order_of_their_keys(log: Log, codec: str) -> None:
    produced(log, 500, **{"compression.type": codec})
    found = consumed(log, 500)
    of_key: dict[bytes, list[int]] = {}
    for message in found:
        number = int((message.value() or b"").removeprefix(b"value-"))
        assert message.key() == b"key-%d" % (number % 7)
        assert message.headers() == [("ce-id", b"%d" % number)]
        assert message.partition() == partition_of(message.key() or b"", PARTITIONS)
        of_key.setdefault(message.key() or b"", []).append(number)
    assert all(numbers == sorted(numbers) for numbers in of_key.values())
    assert sum(map(len, of_key.values())) == 500


def test_offsets_are_those_acknowledged_and_have_no_holes(log: Log) -> None:
    acknowledged = {(m.partition(), m.offset()): m.key() for m in produced(log, 300)}
    found = {(m.partition(), m.offset()): m.key() for m in consumed(log, 300)}
    assert found == acknowledged
    for number in range(PARTITIONS):
        offsets = sorted(offset or 0 for partition, offset in found if partition == number)
        assert offsets == list(range(len(offsets)))


def test_reading_begins_at_any_offset(log: Log) -> None:
    produced(log, 300)
    produced(log, 300)
    ends = dict.fromkeys(range(PARTITIONS), 0)
    for message in consumed(log, 600):
        ends[message.partition() or 0] += 1
    begins = {number: end * 2 // 3 + 1 for number, end in ends.items()}
    left = sum(ends.values()) - sum(begins.values())
    first: dict[int, int] = {}
    for message in consumed(log, left, lambda number: begins[number]):
        first.setdefault(message.partition() or 0, message.offset() or 0)
    assert first == begins


def test_the_ends_of_a_partition_are_told(log: Log) -> None:
    consumer = log.consumer()
    place = TopicPartition(log.name("jobs"), partition_of(b"key-0", PARTITIONS))
    assert consumer.get_watermark_offsets(place, timeout=PATIENCE_S) == (0, 0)
    count = sum(partition_of(b"key-%d" % (n % 7), PARTITIONS) == place.partition for n in range(50))
    produced(log, 50)
    assert consumer.get_watermark_offsets(place, timeout=PATIENCE_S) == (0, count)
    consumer.close()


def test_an_offset_beyond_the_end_is_an_error(log: Log) -> None:
    consumer = log.consumer()
    consumer.assign([TopicPartition(log.name("jobs"), 0, 5)])
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    error = message.error()
    assert error is not None
    assert error.code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)
    consumer.close()


def test_a_reader_at_the_end_gets_what_is_written_next(log: Log) -> None:
    consumer = log.consumer()
    consumer.assign([TopicPartition(log.name("controls"), 0, 0)])
    assert consumer.poll(0.3) is None
    producer = log.producer()
    producer.produce(log.name("controls"), b"now", b"k", partition=0)
    producer.flush(PATIENCE_S)
    message = consumer.poll(PATIENCE_S)
    assert message is not None
    assert message.value() == b"now"
    consumer.close()


def test_a_topic_that_is_not_there_is_an_error(log: Log) -> None:
    errors: list[Any] = []
    producer = log.producer(**{"message.timeout.ms": 3_000, "topic.metadata.propagation.max.ms": 500})
    if isinstance(log.kafka.group_instance_id, str):
        pytest.skip("the embedded broker creates topics by itself")
    with suppress(KafkaException):  # at once, or when it has asked
        producer.produce("no-such-topic", b"v", on_delivery=lambda error, _: errors.append(error))
        producer.flush(PATIENCE_S)
        (error,) = errors
        assert error.code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
