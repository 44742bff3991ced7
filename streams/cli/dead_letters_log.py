"""Reads the log for dead letters: the original records, and which of them came back and are not metered yet.

It must not join a group or commit, nor decide what is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from streams.cli.dead_letters_judge import Original
from streams.config.settings import KafkaSettings
from streams.engine.shard.dead_letters import RecordPosition, replay_of
from streams.errors import TrainfareError
from streams.topics import full_name
from streams.transport.log_reader import log_reader

_ANSWER_S: Final = 15.0
_POLL_S: Final = 0.1
_AT_ONCE: Final = 1_000
#: Reading on is cheaper than seeking where the next record wanted is this near.
_NEAR: Final = 2_000


class LogReader:
    """Reads committed records of the configured topics while its `with` block runs."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._consumer = log_reader(
            kafka,
            "trainfare-dead-letters",
            **{
                "auto.offset.reset": "earliest",
                "queued.min.messages": _NEAR,
                "queued.max.messages.kbytes": 16 * 1024,
            },
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close()

    def originals(self, topic: str, partition: int, offsets: Iterable[int]) -> Iterator[Original | None]:
        """The record at each of the offsets, which ascend; None where the log no longer has it."""
        low, high = self._bounds(topic, partition)
        messages: Iterator[Message] = iter(())
        head: Message | None = None
        position: int | None = None  # all records before it were read or passed; `head` is the last of them
        for offset in offsets:
            if not low <= offset < high:
                yield None
                continue
            if position is None or offset > position + _NEAR:
                messages, head, position = self._from(topic, partition, offset), None, offset
            while position <= offset:
                head = next(messages, None)
                position = high if head is None else _offset(head) + 1
            yield _original(head) if head is not None and _offset(head) == offset else None

    def came_back(self, topic: str, partition: int, start: int) -> Iterator[RecordPosition]:
        """The dead letters that were sent again into the partition, from an offset to its present end."""
        for message in self._from(topic, partition, start):
            place = replay_of(_headers(message), RecordPosition(topic, partition, _offset(message)))
            if place is not None:
                yield place

    def _bounds(self, topic: str, partition: int) -> tuple[int, int]:
        place = TopicPartition(full_name(topic, self._kafka.topic_prefix), partition)
        try:
            low, high = self._consumer.get_watermark_offsets(place, timeout=_ANSWER_S)
        except KafkaException as fault:
            raise self._fault(fault.args[0].str()) from None
        return int(low), int(high)

    def _from(self, topic: str, partition: int, start: int) -> Iterator[Message]:
        """Records from an offset to the end that the partition has now."""
        _, high = self._bounds(topic, partition)
        if start >= high:
            return
        name = full_name(topic, self._kafka.topic_prefix)
        self._consumer.assign([TopicPartition(name, partition, start)])
        silent_s = 0.0
        while True:
            # It waits for as many as are asked for, so not for long; the end of the partition is a message too.
            messages = self._consumer.consume(_AT_ONCE, timeout=_POLL_S)
            silent_s = 0.0 if messages else silent_s + _POLL_S
            if silent_s >= _ANSWER_S:
                raise self._fault(f"no record of {name}/{partition} within {_ANSWER_S:g} s")
            for message in messages:
                error = message.error()
                if (message.topic(), message.partition()) != (name, partition):
                    continue  # still of what was read before
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise self._fault(error.str())
                if start <= _offset(message) < high:
                    yield message
                if _offset(message) >= high - 1:
                    return

    def _fault(self, said: str) -> TrainfareError:
        return TrainfareError(
            f"the log at {self._kafka.bootstrap_servers} cannot be read: {said}; nothing was sent that was not "
            "acknowledged: run the same command again"
        )


def already_back(
    log: LogReader, lowest: Iterable[tuple[str, int, int]], metered_to: dict[tuple[str, int], int]
) -> set[RecordPosition]:
    """The letters that are in the log again and not yet in the store's table.

    `lowest`: per topic and partition the lowest offset in question; a letter comes back behind its own place.  What
    was metered is in the table, which is written before the offset is.
    """
    found: set[RecordPosition] = set()
    for topic, partition, offset in lowest:
        start = max(offset + 1, metered_to.get((topic, partition), 0))
        found.update(log.came_back(topic, partition, start))
    return found


def _original(message: Message) -> Original:
    return Original(_bytes(message.key()), _bytes(message.value()), _headers(message))


def _headers(message: Message) -> list[tuple[str, bytes | None]]:
    headers: Any = message.headers() or ()  # typed as a mapping too, which it takes and does not give
    return [(str(name), _bytes(value)) for name, value in headers]


def _offset(message: Message) -> int:
    return int(message.offset() or 0)


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
