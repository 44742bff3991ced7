"""Where a partition ends: asked again while it moves, and given up in time."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.transport import log_reader
from streams.transport.log_reader import ends_of, next_messages

PLACE = TopicPartition("trainfare.controls", 0)


class Moving:
    """A consumer whose broker answers with a fault so many times."""

    def __init__(self, faults: int, code: int) -> None:
        self.faults, self.code, self.asked, self.waited = faults, code, 0, 0

    def get_watermark_offsets(self, partition: TopicPartition, timeout: float) -> tuple[int, int]:
        assert (partition, timeout) == (PLACE, 5.0)
        self.asked += 1
        if self.asked <= self.faults:
            raise KafkaException(KafkaError(self.code))
        return 3, 7

    def poll(self, timeout: float) -> Any:
        assert timeout > 0
        self.waited += 1


def ends(consumer: Moving) -> tuple[int, int]:
    return ends_of(cast("Consumer", consumer), PLACE, 5.0)


@pytest.mark.parametrize("code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE])
def test_a_partition_that_moves_is_asked_again(code: int) -> None:
    consumer = Moving(3, code)
    assert ends(consumer) == (3, 7)
    assert (consumer.asked, consumer.waited) == (4, 3)


def test_one_that_moves_for_ever_is_given_up() -> None:
    consumer = Moving(10**6, KafkaError.NOT_LEADER_FOR_PARTITION)
    with pytest.raises(KafkaException):
        ends(consumer)
    assert consumer.asked == log_reader._TRIES


def test_another_fault_is_said_at_once() -> None:
    consumer = Moving(1, KafkaError.TOPIC_AUTHORIZATION_FAILED)
    with pytest.raises(KafkaException):
        ends(consumer)
    assert consumer.asked == 1


class Queue:
    """A consumer with messages that have arrived, and no more to come."""

    def __init__(self, arrived: list[str]) -> None:
        self.arrived = arrived

    def poll(self, timeout: float) -> str | None:
        assert timeout == 5.0
        return self.arrived.pop(0) if self.arrived else None

    def consume(self, count: int, timeout: float) -> list[str]:
        assert timeout == 0 or count <= len(self.arrived), "it would wait for messages that do not come"
        found, self.arrived = self.arrived[:count], self.arrived[count:]
        return found


def test_what_has_arrived_is_returned_without_waiting_for_more() -> None:
    consumer = cast("Consumer", Queue(["a", "b", "c"]))
    found: list[Any] = [next_messages(consumer, 2, 5.0) for _ in range(3)]
    assert found == [["a", "b"], ["c"], []]
