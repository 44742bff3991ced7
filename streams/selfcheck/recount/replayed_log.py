"""Reads a log from Kafka again, from its earliest records up to given offsets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from schemas.canary_proof import CanaryProof
from schemas.decode import decode
from schemas.events import PriceEvent
from streams.config.settings import KafkaSettings
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.errors import TrainfareError
from streams.topics import Topic, full_name
from streams.transport.log_reader import log_reader, next_messages

_TIMEOUT_S: Final = 10.0
_AT_ONCE: Final = 5_000
#: This many seconds without a record before the end count as a fault of the broker.
_PATIENCE: Final = 30


class LogStart(NamedTuple):
    """Where the log of a partition starts after retention: its first offset, and the log time of the record there."""

    offset: int
    log_ms: int


class ReplayedLog:
    """The records of all partitions that Kafka still has, for a second metering; `close` it."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._consumer = log_reader(kafka, "trainfare-audit", **{"auto.offset.reset": "error"})

    def close(self) -> None:
        """Close the connections."""
        self._consumer.close()

    def book(self, newest_allowed_ms: Callable[[int], int], canary: CanaryProof | None) -> PriceBook:
        """All prices of the topic; that of the canary if it is proven.

        Raises:
            TrainfareError: The topic cannot be read.
        """
        name = full_name(Topic.PRICES, self._kafka.topic_prefix)
        low, high = self._ends(name, 0)
        events = []
        for message in self._read({(name, 0): (low, high)}):
            event = decode(
                str(Topic.PRICES),
                message.value(),
                _headers(message),
                newest_allowed_ms(message.timestamp()[1]),
                canary,
            )
            if isinstance(event, PriceEvent):
                events.append(event)
        return PriceBook.empty().with_events(events)

    def truncated(self, number: int, ends: Mapping[str, int]) -> dict[str, LogStart]:
        """Find the topics with records below these ends whose first records are gone from the log."""
        found = {}
        for topic, end in ends.items():
            name = full_name(topic, self._kafka.topic_prefix)
            low, high = self._ends(name, number)
            if low > 0 and end > 0:
                first = next(self._read({(name, number): (low, min(low + 1, high))}), None)
                found[topic] = LogStart(low, 2**62 if first is None else first.timestamp()[1])
        return found

    def batches(self, number: int, ends: Mapping[str, int]) -> Iterator[LogBatch]:
        """Yield the records of one shard's partitions below these ends, in order within each topic.

        The first batch of a topic begins at offset 0: deleted records count as read.

        Raises:
            TrainfareError: A partition cannot be read.
        """
        names = {full_name(topic, self._kafka.topic_prefix): topic for topic in ends}
        spans = {(name, number): (self._ends(name, number)[0], ends[topic]) for name, topic in names.items()}
        next_offsets = dict.fromkeys(ends, 0)
        waiting: dict[str, list[LogRecord]] = {topic: [] for topic in ends}
        for message in self._read(spans):
            topic = names[str(message.topic())]
            record = LogRecord(
                int(message.offset() or 0), message.timestamp()[1], message.value(), _headers(message)
            )
            waiting[topic].append(record)
            if len(waiting[topic]) >= _AT_ONCE:
                yield _batch(topic, number, next_offsets, waiting)
        for topic in ends:
            if waiting[topic]:
                yield _batch(topic, number, next_offsets, waiting)

    def _ends(self, name: str, number: int) -> tuple[int, int]:
        try:
            low, high = self._consumer.get_watermark_offsets(TopicPartition(name, number), timeout=_TIMEOUT_S)
        except KafkaException as fault:
            raise TrainfareError(f"topic {name} cannot be read: {fault.args[0].str()}") from fault
        return int(low), int(high)

    def _read(self, spans: Mapping[tuple[str, int], tuple[int, int]]) -> Iterator[Message]:
        unread = {place: end for place, (begin, end) in spans.items() if begin < end}
        if not unread:
            return
        self._consumer.assign(
            [TopicPartition(name, number, spans[name, number][0]) for name, number in unread]
        )
        silent = 0
        while unread:
            messages = next_messages(self._consumer, _AT_ONCE, 1.0)
            silent = 0 if messages else silent + 1
            if silent > _PATIENCE:
                raise TrainfareError(
                    f"no broker answers for {', '.join(f'{name}/{number}' for name, number in unread)}; nothing was compared"
                )
            for message in messages:
                place = (str(message.topic()), int(message.partition() or 0))
                error = message.error()
                if error is None and place in unread:
                    offset = int(message.offset() or 0)
                    if offset < unread[place]:
                        yield message
                    if offset + 1 >= unread[place]:
                        del unread[place]
                elif error is not None and error.code() == KafkaError._PARTITION_EOF:
                    unread.pop(place, None)  # no records are left: markers, or compacted ones
                elif error is not None and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    raise TrainfareError(
                        f"topic {place[0]} partition {place[1]} cannot be read: {error.str()}"
                    )
        self._consumer.unassign()


def _batch(
    topic: str, number: int, next_offsets: dict[str, int], waiting: dict[str, list[LogRecord]]
) -> LogBatch:
    records, waiting[topic] = waiting[topic], []
    start, next_offsets[topic] = next_offsets[topic], records[-1].offset + 1
    return LogBatch(topic, number, start, next_offsets[topic], records)


def _headers(message: Message) -> list[tuple[str, bytes]]:
    return [
        (str(header[0]), header[1] if isinstance(header[1], bytes) else str(header[1] or "").encode())
        for header in message.headers() or ()
    ]
