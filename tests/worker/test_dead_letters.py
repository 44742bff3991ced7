"""Dead letters on Kafka: acknowledged before anything is passed, readable for whoever made them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from sinks.errors import SinkBusy
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table
from streams.transport.security import librdkafka_config
from streams.worker.storing import dead_letters
from streams.worker.storing.dead_letters import DeadLetterProducer
from tests.worker.lab import Lab

LETTERS = dead_letter_table(
    [
        DeadLetter("gpu", 3, 7, "malformed_json", "line 1", b"{oops", 1_700_000_000_123),
        DeadLetter("gpu", 3, 9, "malformed_json", "bytes", b"\xff\xfe", 1_700_000_000_123),
    ],
    1,
)


def test_each_dead_letter_is_one_keyed_json_object(lab: Lab) -> None:
    topic = f"{lab.kafka.topic_prefix}deadletter"
    DeadLetterProducer(librdkafka_config(lab.kafka), topic).send(LETTERS)
    consumer = Consumer({"bootstrap.servers": lab.kafka.bootstrap_servers, "group.id": "x", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(2, timeout=20)
    consumer.close()
    assert [message.key() for message in messages] == [b"gpu/3/7", b"gpu/3/9"]
    first, second = (json.loads(message.value() or b"") for message in messages)
    assert first == {
        "topic": "gpu",
        "partition": 3,
        "offset": 7,
        "reason": "malformed_json",
        "detail": "line 1",
        "time_ms": 1_700_000_000_123,
        "raw": "{oops",
    }
    assert second["raw_base64"] == "//4="


def test_a_broker_that_is_away_is_asked_again_later() -> None:
    producer = DeadLetterProducer({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "t", timeout_s=0.3)
    with pytest.raises(SinkBusy, match="could not be published to topic t"):
        producer.send(LETTERS)


class Broker:
    """A producer's buffer of so many messages; `flush` lets the broker take them, but for the first `deaf` times."""

    def __init__(self, backpressure: int, deaf: int = 0) -> None:
        self._backpressure = backpressure
        self._deaf = deaf
        self._owned: list[tuple[bytes, Callable[[object, object], None]]] = []
        self.flushes = 0
        self.taken: list[bytes] = []

    def produce(
        self, topic: str, *, value: bytes, key: bytes, on_delivery: Callable[[object, object], None]
    ) -> None:
        if len(self._owned) >= self._backpressure:
            raise BufferError("Local: Queue full")
        self._owned.append((key, on_delivery))

    def flush(self, timeout_s: float) -> int:
        self.flushes += 1
        if self.flushes > self._deaf:
            for key, delivered in self._owned:
                self.taken.append(key)
                delivered(None, None)
            self._owned.clear()
        return len(self._owned)


def producer_on(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> DeadLetterProducer:
    monkeypatch.setattr(dead_letters, "Producer", lambda _config: broker)
    return DeadLetterProducer({}, "t")


def test_a_buffer_that_is_full_a_second_time_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(backpressure=1, deaf=1)
    producer_on(broker, monkeypatch).send(LETTERS)
    assert broker.taken == [b"gpu/3/7", b"gpu/3/9"]


def test_a_buffer_that_stays_full_is_tried_again_with_the_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(backpressure=1, deaf=4)
    producer = producer_on(broker, monkeypatch)
    with pytest.raises(SinkBusy, match="no room for more"):
        producer.send(LETTERS)
    assert broker.flushes <= 4  # bounded, whatever the broker does
    producer.send(LETTERS)
    assert set(broker.taken) == {b"gpu/3/7", b"gpu/3/9"}


def test_what_an_earlier_call_lost_does_not_fail_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(backpressure=9)
    producer = producer_on(broker, monkeypatch)
    producer.send(LETTERS)
    late: list[Callable[[object, object], None]] = []

    def flush_nothing(_timeout_s: float) -> int:
        late.extend(delivered for _, delivered in broker._owned)
        return len(late)

    monkeypatch.setattr(broker, "flush", flush_nothing)
    with pytest.raises(SinkBusy, match="2 not acknowledged"):
        producer.send(LETTERS)
    monkeypatch.undo()
    broker._owned.clear()
    flush = broker.flush

    def flush_late(timeout_s: float) -> int:
        late[0](KafkaError(KafkaError._MSG_TIMED_OUT), None)
        return flush(timeout_s)

    monkeypatch.setattr(broker, "flush", flush_late)
    producer.send(LETTERS)
