"""`trainfare collect kafka`: reads topics with records of other shapes, and makes events of them by a map.

Its position is the next offset of each partition. The runner stores the position after the events are
acknowledged.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from streams.accounts.account import Account
from streams.collect.allocations import Allocations
from streams.collect.collector import (
    CollectedEvent,
    EventBatch,
    PolledByOptions,
    Position,
    SourceUnavailableError,
)
from streams.collect.kafka.faults import MappingError
from streams.collect.kafka.mapping import RecordMap
from streams.collect.kafka.options import Options
from streams.collect.kafka.topics import Bounds, KafkaTopics, Place, SourceLog, SourceRecord
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError, WrongUseError
from streams.topics import Topic, full_name

_EVENTS_PER_BATCH: Final = 1_000
_FAULTS_SAID: Final = 1_000


class KafkaRelay(PolledByOptions):
    """Some topics with their map."""

    name = "kafka"

    def __init__(
        self, options: Options, log: SourceLog, *, events_per_batch: int = _EVENTS_PER_BATCH
    ) -> None:
        self._options: Options = options
        self._log = log
        self._map = RecordMap(options)
        self._events_per_batch = events_per_batch
        self._held: Allocations | None = None
        self._said: dict[tuple[str, str, str], str] = {}

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what stands in the topics after a position, each partition in its order.

        Raises:
            SourceUnavailableError: Kafka is away, or a partition ends before the position; or the allocations cannot be
                read.
        """
        del now_ms
        self._held = self._options.gpu_allocations()
        offsets = _offsets(position)
        batch = _RelayBatch()
        parts = self._parts(offsets, batch)
        for records in self._log.records(parts):
            for record in records:
                self._add(record, batch)
                offsets.setdefault(record.topic, {})[str(record.partition)] = record.offset + 1
                if len(batch.events) >= self._events_per_batch:
                    yield batch.ended(offsets)
                    batch = _RelayBatch()
            if batch.account.read:
                yield batch.ended(offsets)
                batch = _RelayBatch()
        yield batch.ended(offsets)

    def _parts(self, offsets: dict[str, dict[str, int]], batch: _RelayBatch) -> Mapping[Place, Bounds]:
        """Add partitions that are new to the offsets, and say which partitions to read."""
        found = {}
        at_first = {topic for topic in self._options.topics if topic not in offsets}
        for (topic, partition), bounds in self._log.bounds(self._options.topics).items():
            at = offsets.setdefault(topic, {}).get(str(partition))
            if at is None:  # a partition that is added later is read from its beginning in any case
                is_latest = self._options.initial_offset == "latest" and topic in at_first
                at = bounds.end if is_latest else bounds.begin
            if at < bounds.begin:
                gone = f"offsets {at} to {bounds.begin - 1} of {topic}, partition {partition}, are gone"
                batch.account.not_understood("gone", f"{gone}: the topic keeps too little", bounds.begin - at)
                at = bounds.begin
            if at > bounds.end:
                raise SourceUnavailableError(
                    f"{topic}, partition {partition}, ends at offset {bounds.end}, and {at} was to be read next; if the "
                    "topic was made anew, remove the file of --state"
                )
            offsets[topic][str(partition)] = at
            found[topic, partition] = Bounds(at, bounds.end)
        return found

    def _add(self, record: SourceRecord, batch: _RelayBatch) -> None:
        events, faults = self._map.of_record(record.topic, record.value, self._held)
        batch.events += events
        if faults:
            batch.account.not_understood(faults[0].reason, self._line(record, faults[0]))
        elif events:
            batch.account.metered()
        else:
            batch.account.free("no_record")

    def _line(self, record: SourceRecord, fault: MappingError) -> str:
        """What to say of a fault: of many of a kind the first one, so that a log has it once."""
        kind = (record.topic, fault.reason, fault.where)
        line = self._said.get(kind)
        if line is None:
            line = f"{record.topic}, partition {record.partition}, offset {record.offset}: {fault}"
            if len(self._said) < _FAULTS_SAID:
                self._said[kind] = line
        return line


class _RelayBatch:
    """Events and the account of some records."""

    def __init__(self) -> None:
        self.events: list[CollectedEvent] = []
        self.account = Account()

    def ended(self, offsets: Mapping[str, Mapping[str, int]]) -> EventBatch:
        position = {"next": {topic: dict(parts) for topic, parts in offsets.items()}}
        return EventBatch(self.events, position, self.account)


def _offsets(position: Position | None) -> dict[str, dict[str, int]]:
    """A copy of the offsets of a position.

    Raises:
        TrainfareError: Another kind of collector stored the position.
    """
    stored: Any = {} if position is None else position.get("next")
    try:
        return msgspec.convert(stored, dict[str, dict[str, int]])
    except msgspec.ValidationError:
        raise TrainfareError(
            "the stored position has no offsets; remove the file of --state to read the topics from their beginning"
        ) from None


def open_collector(options: Options, kafka: Callable[[], KafkaSettings]) -> KafkaRelay:
    """The collector; `kafka`: the meter's own, which is read where the map names no other.

    Raises:
        WrongUseError: It would read what it writes, or the password of another Kafka cannot be read.
    """
    connection = options.connection
    if connection is not None:
        try:
            other = connection.settings()
        except (OSError, ValueError) as fault:
            raise WrongUseError(f"[kafka.connection] {fault}") from None
        return KafkaRelay(options, KafkaTopics(lambda: other))
    settings = kafka()
    own = {full_name(topic, settings.topic_prefix) for topic in Topic}
    for rule in options.rules:
        if rule.topic in own:
            raise WrongUseError(
                f"rule {rule.name}: {rule.topic} is a topic of the meter's own; name one of yours"
            )
    return KafkaRelay(options, KafkaTopics(lambda: settings))
