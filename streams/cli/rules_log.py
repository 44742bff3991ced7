"""Reads the records of rules in force from the topic `controls`."""

from __future__ import annotations

from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name
from streams.transport.log_reader import ends_of, log_reader

_ANSWER_S: Final = 15.0
_ANY_TIME_MS: Final = 2**62


def rules_in_force(kafka: KafkaSettings) -> list[ControlEvent]:
    """Return the last record of each rule, in order of the log.

    Raises:
        TrainfareError: The topic cannot be read.
    """
    name = full_name(Topic.CONTROLS, kafka.topic_prefix)
    consumer = log_reader(kafka, "trainfare-rules", **{"auto.offset.reset": "earliest"})
    found: dict[bytes, ControlEvent] = {}
    try:
        low, high = ends_of(consumer, TopicPartition(name, 0), _ANSWER_S)
        consumer.assign([TopicPartition(name, 0, low)])
        while low < high:
            message: Any = consumer.poll(_ANSWER_S)
            if message is None:
                raise TrainfareError(
                    f"no record of {name} within {_ANSWER_S:g} s; run the same command again"
                )
            error = message.error()
            if error is not None and error.code() == KafkaError._PARTITION_EOF:
                break
            if error is not None:
                raise TrainfareError(f"{name} cannot be read: {error.str()}")
            low = message.offset() + 1
            key = bytes(message.key() or b"")
            found.pop(key, None)
            event = decode(Topic.CONTROLS, message.value(), [], _ANY_TIME_MS)
            if isinstance(event, ControlEvent) and event.kind == "rule":
                found[key] = event
    except KafkaException as fault:
        raise TrainfareError(f"{name} cannot be read: {fault.args[0].str()}") from None
    finally:
        consumer.close()
    return list(found.values())
