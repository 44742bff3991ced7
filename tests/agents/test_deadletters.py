"""Dead letters on Kafka: acknowledged before anything is passed, readable for whoever made them."""

from __future__ import annotations

import json

import pytest
from confluent_kafka import Consumer, TopicPartition

from sinks.errors import SinkBusy
from streams.agents.deadletters import DeadLetterProducer
from streams.pipeline.tables import DeadLetter, dead_letter_table
from streams.transport.security import librdkafka_config
from tests.agents.lab import Lab

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
