"""Writes batches of records to Kafka, acknowledged by all replicas before a call returns.

A record whose acknowledgement is late may be in the log all the same: write it again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.counting import how_many
from sinks.errors import SinkBusy
from streams.keys import OutgoingRecord
from streams.threads import Threads
from streams.topics import RECORD_MAX_BYTES, SHARD_TOPICS, full_name

#: Batches at a time; each waits for its acknowledgements.
_AT_ONCE: Final = 8
_POLL_S: Final = 0.02
#: The partition of the key.
_BY_KEY: Final = -1


class RecordWriter:
    """A producer that connects at the first write.

    Args:
        config: Of librdkafka.
        prefix: Of the topics.
        name: Of its threads.
        timeout_s: How long a batch may take.
    """

    def __init__(self, config: Mapping[str, Any], prefix: str, name: str, timeout_s: float = 5.0) -> None:
        self._config = dict(config)
        self._prefix = prefix
        self._timeout_s = timeout_s
        self._threads = Threads(f"{name}-write", _AT_ONCE)
        self._connecting = Threads(f"{name}-connect")
        self._producer: Producer | None = None

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        """Return once Kafka has every record.

        Raises:
            SinkBusy: Some were not acknowledged in time, or refused.
        """
        if self._producer is None:
            self._producer = await self._connecting.run(self._connected)
        await self._threads.run(self._write, self._producer, records)

    def _connected(self) -> Producer:
        if self._producer is not None:
            return self._producer
        return Producer(
            {
                **self._config,
                "partitioner": "murmur2_random",
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 5,
                "compression.type": "zstd",
                "message.max.bytes": RECORD_MAX_BYTES + 64 * 1024,
                "message.timeout.ms": int(self._timeout_s * 1000),
            }
        )

    def _write(self, producer: Producer, records: Sequence[OutgoingRecord]) -> None:
        faults: list[str] = []
        acknowledged: list[None] = []  # appended to by whichever thread polls

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                faults.append(f"{message.topic()}: {error.str()}")
            acknowledged.append(None)

        deadline_s = time.monotonic() + self._timeout_s + 1
        for record in records:
            name = full_name(record.topic, self._prefix)
            partition = _BY_KEY if record.topic in SHARD_TOPICS else 0  # the others have one
            while True:
                try:
                    producer.produce(
                        name,
                        value=record.value,
                        key=record.key,
                        headers=record.headers,
                        partition=partition,
                        on_delivery=delivered,
                    )
                except BufferError:
                    if time.monotonic() > deadline_s:
                        raise SinkBusy("Kafka takes records too slowly") from None
                    producer.poll(_POLL_S)
                except KafkaException as fault:
                    raise SinkBusy(f"topic {name} takes no record: {fault.args[0].str()}") from None
                else:
                    break
        while len(acknowledged) < len(records):
            if time.monotonic() > deadline_s:
                raise SinkBusy(
                    f"{len(records) - len(acknowledged)} records were not acknowledged in {self._timeout_s:g} s"
                )
            producer.poll(_POLL_S)
        if faults:
            raise SinkBusy(f"Kafka has not taken {how_many(len(faults), 'record')}: {faults[0]}")
