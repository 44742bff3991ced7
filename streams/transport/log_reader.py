"""Creates a consumer without a group, to read the log a second time.

It must not commit, nor decide what is read.
"""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.config.settings import KafkaSettings
from streams.transport.security import librdkafka_config

#: Answers while a partition moves, or has just been created.
_MOVING: Final = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
_TRIES: Final = 20
_PAUSE_S: Final = 0.25


def log_reader(kafka: KafkaSettings, name: str, **options: Any) -> Consumer:
    """Return a consumer of committed records that reports partition ends; `name`: the group id, which the client requires."""
    return Consumer(
        {
            **librdkafka_config(kafka),
            "group.id": name,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            **options,
        }
    )


def ends_of(consumer: Consumer, partition: TopicPartition, timeout_s: float) -> tuple[int, int]:
    """Return where the partition begins and ends; one that moves is asked again for some seconds. Blocks.

    Raises:
        KafkaException: The broker does not answer so.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            begin, end = consumer.get_watermark_offsets(partition, timeout=timeout_s)
        except KafkaException as fault:
            if not tries_left or fault.args[0].code() not in _MOVING:
                raise
            consumer.poll(_PAUSE_S)  # waits, and lets the client learn of the new leader
        else:
            return begin, end
    raise AssertionError("the last try returns or raises")


def next_messages(consumer: Consumer, at_most: int, timeout_s: float) -> list[Message]:
    """Return what has arrived, ends of partitions among it; empty if nothing does within the time. Blocks.

    `Consumer.consume` with a time would wait until so many are there, also where the log ends before.
    """
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(at_most - 1, timeout=0)]
