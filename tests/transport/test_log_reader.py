"""Where a partition ends: asked again while it moves, and given up in time."""

from __future__ import annotations

from typing import Any, cast

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.transport import log_reader
from streams.transport.log_reader import ends_of

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
    consumer = Moving(1, KafkaError.UNKNOWN_TOPIC_OR_PART)
    with pytest.raises(KafkaException):
        ends(consumer)
    assert consumer.asked == 1
