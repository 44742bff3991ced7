"""Creates a consumer without a group, to read the log a second time, and tells errors that pass from those that stay."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from streams.config.settings import KafkaSettings
from streams.transport.security import librdkafka_config

#: Errors while brokers start, elect leaders or learn of a topic: true for a moment only, as a rule.
MOMENTARY: Final = frozenset(
    {
        KafkaError.UNKNOWN,
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.LEADER_NOT_AVAILABLE,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.REQUEST_TIMED_OUT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.REPLICA_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
        KafkaError.COORDINATOR_NOT_AVAILABLE,
        KafkaError.NOT_COORDINATOR,
        KafkaError.KAFKA_STORAGE_ERROR,
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.UNKNOWN_LEADER_EPOCH,
        KafkaError.OFFSET_NOT_AVAILABLE,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError.INCONSISTENT_TOPIC_ID,
    }
)
_TRIES: Final = 20
_PAUSE_S: Final = 0.25


def log_reader(kafka: KafkaSettings, name: str, **options: Any) -> Consumer:
    """A consumer of committed records that reports partition ends; `name`: the group id, which the client requires."""
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
    """Where the partition begins and ends; one that moves is asked again for some seconds. Blocks.

    Raises:
        KafkaException: The broker does not answer so.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            begin, end = consumer.get_watermark_offsets(partition, timeout=timeout_s)
        except KafkaException as fault:
            if not tries_left or fault.args[0].code() not in MOMENTARY:
                raise
            consumer.poll(_PAUSE_S)  # waits, and lets the client learn of the new leader
        else:
            return begin, end
    raise AssertionError("the last try returns or raises")


def next_messages(consumer: Consumer, at_most: int, timeout_s: float) -> list[Message]:
    """What has arrived, ends of partitions among it; empty if nothing does within the time. Blocks.

    `Consumer.consume` with a time would wait until so many are there, also where the log ends before.
    """
    first = consumer.poll(timeout_s)
    return [] if first is None else [first, *consumer.consume(at_most - 1, timeout=0)]
