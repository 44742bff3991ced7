"""Reads the controls in force, for commands: the topic `controls` from its beginning to its present end.

It must not follow the topic, nor be used where a worker runs: that has a reader of its own.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import Topic, full_name
from streams.transport.log_reader import MOMENTARY, ends_of, log_reader, next_messages

_AT_ONCE: Final = 1_000
_ANSWER_S: Final = 10.0
# Whether a record was too early is for the worker, which knows when it was appended.
_ANY_TIME_MS: Final = 2**62


def read_controls(kafka: KafkaSettings) -> list[ControlEvent]:
    """The controls in force, in the order of the log. Blocks.

    Raises:
        TrainfareError: The topic cannot be read.
    """
    return list(controls_by_key(kafka).values())


def controls_by_key(kafka: KafkaSettings) -> dict[bytes, ControlEvent]:
    """The controls in force by the keys of their records, in the order of the log. Blocks.

    Raises:
        TrainfareError: The topic cannot be read.
    """
    name = full_name(Topic.CONTROLS, kafka.topic_prefix)
    found: dict[bytes, ControlEvent] = {}
    with closing(log_reader(kafka, "trainfare-controls")) as consumer:
        try:
            low, end = ends_of(consumer, TopicPartition(name, 0), _ANSWER_S)
            consumer.assign([TopicPartition(name, 0, low)])
            while low < end:
                messages = next_messages(consumer, _AT_ONCE, _ANSWER_S)
                if not messages:
                    raise TrainfareError(f"{name} at {kafka.bootstrap_servers} cannot be read: no answer")
                for message in messages:
                    error = message.error()
                    if error is not None and error.code() in MOMENTARY:
                        continue  # the client asks again; no answer within the time is a fault
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise KafkaException(error)
                    low = int(message.offset() or 0) + (error is None)
                    if error is None:
                        _take(found, message.key() or b"", message.value(), list(message.headers() or ()))
        except KafkaException as fault:
            raise TrainfareError(
                f"{name} at {kafka.bootstrap_servers} cannot be read: {fault.args[0].str()}"
            ) from fault
    return found


def _take(found: dict[bytes, ControlEvent], key: bytes, value: bytes | None, headers: Iterable[Any]) -> None:
    known = [(str(name), each) for name, each in headers if isinstance(each, bytes)]
    event = None if value is None else decode(Topic.CONTROLS, value, known, _ANY_TIME_MS)
    if value is None:
        found.pop(key, None)
    elif isinstance(event, ControlEvent):
        found[key] = event  # what is refused changes nothing
