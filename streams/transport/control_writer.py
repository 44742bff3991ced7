"""Writes records to the topic `controls`, acknowledged by all replicas before a call returns.

It must not judge a record. A record whose acknowledgement is late may be in the log all the same: write it again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from sinks.errors import SinkBusy
from streams.threads import Threads

_PARTITION: Final = 0  # the topic has one
#: Writes at a time; each waits for its acknowledgement.
_AT_ONCE: Final = 4


class ControlWriter:
    """A producer that connects at the first write.

    Args:
        config: Of librdkafka.
        topic: The full name.
        timeout_s: How long a write may take.
    """

    def __init__(self, config: Mapping[str, Any], topic: str, timeout_s: float = 5.0) -> None:
        self._config = dict(config)
        self._topic = topic
        self._timeout_s = timeout_s
        self._threads = Threads("controls-write", _AT_ONCE)
        self._connecting = Threads("controls-connect")
        self._producer: Producer | None = None

    async def append(self, key: bytes, value: bytes) -> None:
        """Return once Kafka has the record.

        Raises:
            SinkBusy: It was not acknowledged in time, or refused.
        """
        if self._producer is None:
            self._producer = await self._connecting.run(self._connected)
        await self._threads.run(self._write, self._producer, key, value)

    def _connected(self) -> Producer:
        if self._producer is not None:
            return self._producer
        return Producer(
            {
                **self._config,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": int(self._timeout_s * 1000),
            }
        )

    def _write(self, producer: Producer, key: bytes, value: bytes) -> None:
        outcome: list[KafkaError | None] = []

        def delivered(error: KafkaError | None, _message: Message) -> None:
            outcome.append(error)

        try:
            producer.produce(self._topic, value=value, key=key, partition=_PARTITION, on_delivery=delivered)
        except (BufferError, KafkaException) as fault:
            raise SinkBusy(f"topic {self._topic} takes no record: {fault}") from fault
        producer.flush(self._timeout_s + 1)
        if not outcome:
            raise SinkBusy(f"topic {self._topic} has not acknowledged the record in {self._timeout_s:g} s")
        if outcome[0] is not None:
            raise SinkBusy(f"topic {self._topic} has not taken the record: {outcome[0].str()}")
