"""Reads the log for dead letters: the original records, and which of them were sent again and are not metered yet."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from confluent_kafka import KafkaError, KafkaException, TopicPartition

from streams.config.settings import KafkaSettings
from streams.engine.shard.dead_letters import RecordPosition, replay_of
from streams.errors import TrainfareError
from streams.topics import full_name
from streams.transport.log_reader import log_reader

_ANSWER_S: Final = 15.0
_POLL_S: Final = 0.1
_AT_ONCE: Final = 1_000
#: If the next record is this near, reading on is cheaper than seeking.
_NEAR: Final = 2_000
_END: Final = 2**63


class Original(NamedTuple):
    """A record as it was produced."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LogReader:
    """Reads committed records of the configured topics, until it is closed."""

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
        self.close = self._consumer.close
        self._asked = RecordPosition("", -1, -1)
        self._messages: Iterator[Any] = iter(())
        self._head: Any = None  # the last message read
        self._passed = -1  # every record of the partition up to this offset was read, or is deleted

    def original(self, place: RecordPosition) -> Original | None:
        """The record at a position; None if the log no longer has it. Ascending positions are read in one pass."""
        last, self._asked = self._asked, place
        if place[:2] != last[:2] or place <= last or place.offset > self._passed + _NEAR:
            self._messages, self._head, self._passed = self._from(place), None, place.offset - 1
        while self._passed < place.offset:
            self._head = next(self._messages, None)
            self._passed = _END if self._head is None else self._head.offset()
        if self._passed != place.offset:
            return None
        return Original(self._head.key(), self._head.value(), list(self._head.headers() or ()))

    def came_back(self, start: RecordPosition) -> Iterator[RecordPosition]:
        """Yield the dead letters that were sent again into the partition, from a position to its present end."""
        self._asked = RecordPosition("", -1, -1)  # this seeks, so `original` must seek again
        for message in self._from(start):
            at = start._replace(offset=message.offset())
            if (place := replay_of(message.headers() or (), at)) is not None:
                yield place

    def _from(self, start: RecordPosition) -> Iterator[Any]:
        """Yield records from a position to the partition's present end."""
        name, partition = full_name(start.topic, self._kafka.topic_prefix), start.partition
        try:
            low, high = self._consumer.get_watermark_offsets(
                TopicPartition(name, partition), timeout=_ANSWER_S
            )
        except KafkaException as fault:
            raise self._fault(fault.args[0].str()) from None
        begin = max(low, start.offset)
        if begin >= high:
            return
        self._consumer.assign([TopicPartition(name, partition, begin)])
        silent_s = 0.0
        while True:
            # It waits until this many arrive, so use a short timeout; the end of the partition is a message, too.
            messages = self._consumer.consume(_AT_ONCE, timeout=_POLL_S)
            silent_s = 0.0 if messages else silent_s + _POLL_S
            if silent_s >= _ANSWER_S:
                raise self._fault(f"no record of {name}/{partition} within {_ANSWER_S:g} s")
            message: Any
            for message in messages:
                error, offset = message.error(), message.offset()
                if (message.topic(), message.partition()) != (name, partition):
                    continue  # left over from an earlier seek
                if error is not None and error.code() == KafkaError._PARTITION_EOF:
                    return
                if error is not None:
                    raise self._fault(error.str())
                if begin <= offset < high:
                    yield message
                if offset >= high - 1:
                    return

    def _fault(self, said: str) -> TrainfareError:
        return TrainfareError(
            f"the log at {self._kafka.bootstrap_servers} cannot be read: {said}; nothing was sent that was not "
            "acknowledged: run the same command again"
        )
