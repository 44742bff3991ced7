"""Publishes refused records to a Kafka topic, where their producers can find them.

At least once, before the offset they came from is committed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any, Final, Protocol

import orjson
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from schemas.columns import rows_of, values_of
from schemas.tables import DEAD_LETTERS
from sinks.errors import SinkBusy
from sinks.rows import Condition, Rows

#: One wait lasts as long as a message's delivery timeout, so after the first the queue has room again unless another
#: caller fills it.
_WAITS_FOR_ROOM: Final = 3
#: ClickHouse refuses a query parameter of more than 128 KiB.
_OFFSETS_AT_ONCE: Final = 5_000


class DeadLetterSink(Protocol):
    """Accepts rows of `dead_letters`."""

    def send(self, rows: pa.Table) -> None:
        """Return once all rows are stored.

        Raises:
            SinkBusy: Not all rows are stored; send all of them again later.
        """
        ...


class DeadLetterProducer:
    """Publishes each dead letter as one JSON object, keyed by the position of the refused record."""

    def __init__(self, config: dict[str, Any], topic: str, timeout_s: float = 5.0) -> None:
        self._topic = topic
        self._timeout_s = timeout_s
        self._producer = Producer(
            {
                **config,
                "enable.idempotence": True,
                "linger.ms": 20,
                "message.timeout.ms": int(timeout_s * 1000),
            }
        )

    def send(self, rows: pa.Table) -> None:
        """Return once the broker has acknowledged every row.

        Raises:
            SinkBusy: Some row was not acknowledged; send all of them again.
        """
        refused: list[
            KafkaError
        ] = []  # of this call only: acknowledgements of an earlier failed call may still arrive

        def delivered(error: KafkaError | None, _message: Message) -> None:
            if error is not None:
                refused.append(error)

        times_ms = values_of(rows["time"].cast(pa.int64()))
        for row, time_ms in zip(rows_of(rows), times_ms, strict=True):
            key, value = message_of(row, time_ms)
            try:
                self._produce(value, key, delivered)
            except KafkaException as error:
                refused.append(error.args[0])
        waiting = self._producer.flush(self._timeout_s + 1)
        if waiting or refused:
            raise self._busy(refused[0].str() if refused else f"{waiting} not acknowledged")

    def _produce(
        self, value: bytes, key: bytes, delivered: Callable[[KafkaError | None, Message], None]
    ) -> None:
        """Hand one message to the producer; wait a limited time while its queue is full."""
        for _ in range(_WAITS_FOR_ROOM):
            try:
                self._producer.produce(self._topic, value=value, key=key, on_delivery=delivered)
            except BufferError:
                self._producer.flush(self._timeout_s)
            else:
                return
        raise self._busy("the producer has no room for more, as the broker takes none")

    def _busy(self, reason: str) -> SinkBusy:
        return SinkBusy(f"dead letters could not be published to topic {self._topic}: {reason}")


def not_in_store(store: Rows, rows: pa.Table) -> pa.Table:
    """The rows (of one topic and partition) that the table does not contain yet."""
    if not rows.num_rows:
        return rows
    topic, partition = rows["topic"][0].as_py(), rows["partition"][0].as_py()
    offsets = [*values_of(rows["offset"])]
    stored = set[int]()
    for begin in range(0, len(offsets), _OFFSETS_AT_ONCE):
        where = [
            Condition("topic", "=", topic),
            Condition("partition", "=", partition),
            Condition("offset", "in", offsets[begin : begin + _OFFSETS_AT_ONCE]),
        ]
        stored.update(values_of(store.select(DEAD_LETTERS, where, ("offset",))["offset"]))
    return rows.filter(pa.array([offset not in stored for offset in offsets]))


def message_of(row: dict[str, Any], time_ms: int) -> tuple[bytes, bytes]:
    """The key and the value of the message for a row of `dead_letters`."""
    raw = bytes(row["raw"])
    body = {name: row[name] for name in ("topic", "partition", "offset", "reason", "detail")}
    body["time_ms"] = time_ms
    try:
        body["raw"] = raw.decode()
    except UnicodeDecodeError:
        body["raw_base64"] = base64.b64encode(raw).decode()
    return f"{row['topic']}/{row['partition']}/{row['offset']}".encode(), orjson.dumps(body)
