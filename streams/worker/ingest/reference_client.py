"""What the reader of prices and controls asks of its Kafka client: where a topic begins, and which errors matter.

It must not read records.
"""

from __future__ import annotations

import logging

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.errors import TrainfareError

logger = logging.getLogger(__name__)

_FIRST_ANSWER_S = 10.0
_FIRST_PAUSE_S = 0.2
_FIRST_TRIES = 50


def first_of(place: TopicPartition, consumer: Consumer) -> TopicPartition:
    """The partition's first offset; asked for, as the client would take half a second to find it by itself."""
    for left in range(_FIRST_TRIES, 0, -1):
        try:
            low, _ = consumer.get_watermark_offsets(place, timeout=_FIRST_ANSWER_S)
        except KafkaException as fault:
            # A topic that was just made has no leader yet, or not yet everywhere.
            if left == 1:
                raise TrainfareError(f"topic {place.topic} cannot be read: {fault.args[0].str()}") from fault
            consumer.poll(_FIRST_PAUSE_S)
        else:
            break
    return TopicPartition(place.topic, place.partition, low)


def judge(error: KafkaError) -> None:
    """Most errors pass by themselves; a topic that is gone, or a name refused, does not."""
    if error.fatal() or error.code() in (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError._AUTHENTICATION,
    ):
        raise TrainfareError(f"prices and controls cannot be read: {error.str()}") from KafkaException(error)
    logger.warning(
        "prices and controls cannot be read, retrying",
        extra={"reason": error.str(), "runbook": "docs/operations.md#kafka-unavailable"},
    )
