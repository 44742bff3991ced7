"""Queries the brokers for the consumer group's committed offsets.

Calls block.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from streams.config.settings import KafkaSettings
from streams.topics import full_name
from streams.transport.security import librdkafka_config

_TIMEOUT_S: Final = 5.0

Place = tuple[str, int]  # topic without prefix, partition


def committed(kafka: KafkaSettings, places: Iterable[Place]) -> dict[Place, int]:
    """The committed offsets; empty for brokers that do not answer, which is no finding of an audit."""
    names = {(full_name(topic, kafka.topic_prefix), number): (topic, number) for topic, number in places}
    config = {**librdkafka_config(kafka), "group.id": kafka.group_id, "enable.auto.commit": False}
    consumer = Consumer(config)
    try:
        found = consumer.committed(
            [TopicPartition(name, number) for name, number in names], timeout=_TIMEOUT_S
        )
    except KafkaException:
        return {}
    finally:
        consumer.close()
    return {
        names[each.topic, each.partition]: each.offset
        for each in found
        if each.error is None and each.offset >= 0  # below zero: none yet
    }
