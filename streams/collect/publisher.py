"""Where events of collectors go: to Kafka, or to the terminal to be looked at.

A publisher returns only when every event is safe at its destination.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Protocol

import orjson

from schemas.wire_types import MAX_KEY_BYTES
from streams.collect.collector import CollectedEvent
from streams.keys import key_of
from streams.transport.producer import LogProducer


class Publisher(Protocol):
    """A destination of events."""

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        """Publish events in their order; return when all are acknowledged.

        Raises:
            TrainfareError: Some may be missing; publishing all of them again is harmless.
        """


class KafkaPublisher:
    """Publishes to the topics of the meter; connects when the first events come, and again after a failure."""

    def __init__(self, connect: Callable[[], LogProducer]) -> None:
        self._connect = connect
        self._producer: LogProducer | None = None

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        """Publish events; return when all in-sync replicas have them.

        Raises:
            TrainfareError: Kafka is unreachable, its topics are not as they must be, or it refused an event.
        """
        producer = self._producer or self._connect()
        self._producer = None  # unless all goes well: a producer that failed reports the failure for ever
        for topic, value in events:
            text = orjson.dumps(value)
            producer.send(topic, key_of(topic, text)[:MAX_KEY_BYTES], text)
        producer.flush()
        self._producer = producer


class PrintingPublisher:
    """Prints each event as a line that `trainfare publish` and `trainfare replay` take."""

    def publish(self, events: Sequence[CollectedEvent]) -> None:
        """Print events."""
        for topic, value in events:
            sys.stdout.write(orjson.dumps({"topic": topic, "value": value}).decode() + "\n")
        sys.stdout.flush()
