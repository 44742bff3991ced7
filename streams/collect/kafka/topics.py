"""Reads topics of Kafka from given offsets to their present ends, without a group: the position is the collector's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from streams.collect.collector import SourceUnavailableError
from streams.config.settings import KafkaSettings
from streams.transport.log_reader import ends_of, log_reader, next_messages

_ANSWER_S: Final = 10.0
_RECORDS_AT_ONCE: Final = 500
_TRIES: Final = 30  # of a second each without a record
_OPTIONS: Final = {
    "auto.offset.reset": "error",  # records that are gone are said, not skipped
    "queued.max.messages.kbytes": 16_384,
    "fetch.message.max.bytes": 2**20,
}

Place = tuple[str, int]
"""Topic and partition."""


class SourceRecord(NamedTuple):
    """A record as it stands in a topic."""

    topic: str
    partition: int
    offset: int
    value: bytes | None


class Bounds(NamedTuple):
    """The first offset that a partition still has, and the one after its last."""

    begin: int
    end: int


class SourceLog(Protocol):
    """Topics that can be read from any offset."""

    def bounds(self, topics: Sequence[str]) -> Mapping[Place, Bounds]:
        """What the partitions of topics have now.

        Raises:
            SourceUnavailableError: That cannot be said, or a topic does not exist.
        """

    def records(self, parts: Mapping[Place, Bounds]) -> Iterator[list[SourceRecord]]:
        """Yield the records from `begin` to `end` of each partition, in the order of each.

        Raises:
            SourceUnavailableError: The rest cannot be read now.
        """


class KafkaTopics:
    """Topics of one Kafka; connects when they are first read, and again after a failure."""

    def __init__(self, settings: Callable[[], KafkaSettings], answer_s: float = _ANSWER_S) -> None:
        """`answer_s`: how long Kafka may take to answer, in seconds."""
        self._settings = settings
        self._answer_s = answer_s
        self._consumer: Consumer | None = None
        self._servers = ""

    def bounds(self, topics: Sequence[str]) -> Mapping[Place, Bounds]:
        """What the partitions of topics have now.

        Raises:
            SourceUnavailableError: Kafka does not answer, or a topic does not exist.
        """
        consumer = self._connected()
        found = {}
        try:
            known = consumer.list_topics(timeout=self._answer_s).topics
            for topic in topics:
                if topic not in known or not known[topic].partitions:
                    raise SourceUnavailableError(
                        f"topic {topic} does not exist at {self._servers}; see `topic` of the rules"
                    )
                for partition in sorted(known[topic].partitions):
                    place = TopicPartition(topic, partition)
                    found[topic, partition] = Bounds(*ends_of(consumer, place, self._answer_s))
        except KafkaException as fault:
            said = fault.args[0].str()
            raise self._away(f"{said}; start it, or name another in [kafka.connection]") from None
        return found

    def records(self, parts: Mapping[Place, Bounds]) -> Iterator[list[SourceRecord]]:
        """Yield the records of partitions.

        Raises:
            SourceUnavailableError: Kafka does not answer, or has not what it said.
        """
        left = {place: part.end for place, part in parts.items() if part.begin < part.end}
        if not left:
            return
        consumer = self._connected()
        try:
            consumer.assign([TopicPartition(*place, parts[place].begin) for place in left])
            tries = _TRIES
            while left:
                messages = next_messages(consumer, _RECORDS_AT_ONCE, 1.0)
                tries = _TRIES if messages else tries - 1
                if not tries:
                    raise self._away("no record comes")
                records = []
                for message in messages:
                    place = (str(message.topic()), int(message.partition() or 0))
                    error = message.error()
                    if error is not None and error.code() != KafkaError._PARTITION_EOF:
                        raise self._away(f"{place[0]} {place[1]}: {error.str()}")
                    offset = int(message.offset() or 0)
                    if error is None and place in left and offset < left[place]:
                        records.append(SourceRecord(*place, offset, message.value()))
                    if error is not None or offset + 1 >= left.get(place, 0):
                        left.pop(place, None)
                if records:
                    yield records
            consumer.unassign()
        except KafkaException as fault:
            raise self._away(fault.args[0].str()) from None

    def _connected(self) -> Consumer:
        if self._consumer is None:
            kafka = self._settings()
            self._servers = kafka.bootstrap_servers
            self._consumer = log_reader(kafka, "trainfare-collect", **_OPTIONS)
        return self._consumer

    def _away(self, said: str) -> SourceUnavailableError:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None
        return SourceUnavailableError(f"Kafka at {self._servers}: {said}")
