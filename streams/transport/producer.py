"""Writes events to Kafka: acknowledged by all replicas, partitioned as by the Java client and aiokafka.

Wrong topic settings are refused before the first event.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError
from streams.topics import RECORD_MAX_BYTES, Topic, full_name
from streams.transport.admin import check_topics, connect
from streams.transport.security import librdkafka_config

_FLUSH_S: Final = 60.0
_ENVELOPE_BYTES: Final = 64 * 1024
_BY_KEY: Final = -1


class LogProducer:
    """Sends within its `with` block; leaving it waits until every event is acknowledged.

    Raises:
        TrainfareError: Not every event was acknowledged.
    """

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        check_topics(kafka, connect(kafka))
        self._producer = Producer(
            {
                **librdkafka_config(kafka),
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "linger.ms": 20,
                "compression.type": "zstd",
                # An event too large for the meter must still reach it, to be stored as a dead letter.
                "message.max.bytes": RECORD_MAX_BYTES + _ENVELOPE_BYTES,
            }
        )
        self._first_fault: str | None = None
        self.acknowledged = 0

    def send(
        self,
        topic: Topic,
        key: bytes | None,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]] = (),
        partition: int | None = None,
    ) -> None:
        """Queue one event, by default for the partition of its key; waits while the queue is full.

        Raises:
            TrainfareError: An event cannot be sent.
        """
        name = full_name(topic, self._kafka.topic_prefix)
        while True:
            try:
                self._producer.produce(
                    name,
                    value=value,
                    key=key,
                    headers=list(headers),
                    partition=_BY_KEY if partition is None else partition,
                    on_delivery=self._delivered,
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as fault:
                raise TrainfareError(f"an event for {name} cannot be sent: {fault.args[0].str()}") from None
            else:
                break
        self._producer.poll(0)
        self._raise_fault()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.flush()
        else:
            self._producer.flush(_FLUSH_S)

    def flush(self) -> None:
        """Wait until every event is acknowledged.

        Raises:
            TrainfareError: Not every event was.
        """
        left = self._producer.flush(_FLUSH_S)
        self._raise_fault()
        if left:
            raise TrainfareError(
                f"Kafka at {self._kafka.bootstrap_servers} did not acknowledge {left} events within {_FLUSH_S:g} s; "
                "run the same command again: equal events count once"
            )

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            self.acknowledged += 1
        elif self._first_fault is None:
            self._first_fault = f"{message.topic()}: {error.str()}"

    def _raise_fault(self) -> None:
        if self._first_fault is not None:
            raise TrainfareError(
                f"Kafka at {self._kafka.bootstrap_servers} refused an event of {self._first_fault}; "
                f"{self.acknowledged} were acknowledged; run the same command again: equal events count once"
            )
