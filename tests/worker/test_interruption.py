"""Prices and controls are read on after what passes, where reading had come to; what stays stops the worker in words."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streams.errors import TrainfareError
from streams.worker.reference.interruption import GONE_AFTER_S, Interruption

PRICES = TopicPartition("t.prices", 0)
MOMENTS = (
    KafkaError.UNKNOWN_TOPIC_OR_PART,
    KafkaError._UNKNOWN_TOPIC,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError._AUTO_OFFSET_RESET,
)


class Client:
    """Tells where the log begins and ends, and what it was told to read."""

    def __init__(self, low: int = 0) -> None:
        self.low = low
        self.assigned: list[tuple[str, int]] = []
        self.fault: KafkaError | None = None

    def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
        if self.fault is not None:
            raise KafkaException(self.fault)
        return self.low, 100

    def assign(self, places: list[TopicPartition]) -> None:
        self.assigned += [(place.topic, place.offset) for place in places]


class Scene:
    def __init__(self, low: int = 0) -> None:
        self.now_s = 0.0
        self.client: Any = Client(low)
        self.interruption = Interruption(lambda: self.now_s)

    def pass_s(self, seconds: float) -> list[tuple[str, int]]:
        self.now_s += seconds
        self.interruption.read_on(self.client, {PRICES: 7})
        return list(self.client.assigned)


@pytest.mark.parametrize("code", MOMENTS)
def test_after_a_moment_it_reads_on_where_it_was(code: int) -> None:
    scene = Scene()
    scene.interruption.note(KafkaError(code), PRICES.topic)
    assert scene.pass_s(0.5) == []
    assert scene.pass_s(1.0) == [(PRICES.topic, 7)]
    assert scene.pass_s(10.0) == [(PRICES.topic, 7)], "once"


def test_older_records_that_were_deleted_are_left_out() -> None:
    scene = Scene(low=9)
    scene.interruption.note(KafkaError(KafkaError._AUTO_OFFSET_RESET), PRICES.topic)
    assert scene.pass_s(1.0) == [(PRICES.topic, 9)]


def test_a_topic_that_stays_away_stops_in_words() -> None:
    scene = Scene()
    error = KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)
    scene.interruption.note(error, PRICES.topic)
    scene.now_s = GONE_AFTER_S - 1
    scene.interruption.note(error, PRICES.topic)
    scene.interruption.ended(PRICES.topic)
    scene.now_s = GONE_AFTER_S
    scene.interruption.note(error, PRICES.topic)
    scene.now_s = 2 * GONE_AFTER_S
    with pytest.raises(TrainfareError, match=r"cannot be read: .*for 60 s: t\.prices was deleted"):
        scene.interruption.note(error, PRICES.topic)


def test_the_client_that_cannot_be_asked_where_the_log_begins_is_asked_later() -> None:
    scene = Scene()
    scene.interruption.note(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART), PRICES.topic)
    scene.client.fault = KafkaError(KafkaError._TRANSPORT)
    assert scene.pass_s(1.0) == []
    scene.client.fault = None
    assert scene.pass_s(1.0) == [(PRICES.topic, 7)]


@pytest.mark.parametrize("code", [KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError._AUTHENTICATION])
def test_access_that_is_denied_stops_at_once(code: int) -> None:
    with pytest.raises(TrainfareError):
        Scene().interruption.note(KafkaError(code), PRICES.topic)
