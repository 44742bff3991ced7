"""Finds the end of the log from the consumer and a probing client, and counts unread prices and controls."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from streams.engine.shard.books import Books
from streams.topics import REFERENCE_TOPICS, Topic, full_name
from streams.transport.faust_types import TP, ConsumerNotStarted
from streams.worker.health.probe import ProbeResult
from streams.worker.ingest.watermarks import LogEnds


class WatchedReader(Protocol):
    """The part of the reference reader that is observed."""

    books: Books
    next: Mapping[str, int]
    read_to: Mapping[str, int]
    newest_ms: Mapping[str, int]


class Ends:
    """The log ends of all partitions that this worker reads."""

    def __init__(
        self, consumer: Callable[[], LogEnds | None], probed: Callable[[], ProbeResult], topic_prefix: str
    ) -> None:
        self._consumer = consumer
        self._probed = probed
        self._prefix = topic_prefix

    def of(self, topic: str, number: int, _offset: int) -> int | None:
        """The high watermark: records of an open transaction count as lag, too.

        The consumer's own end accounts for transaction markers, which are no records, but it is stale while the
        consumer stands still.
        """
        tp = TP(full_name(topic, self._prefix), number)
        probed = self._probed()
        asked = probed.ends.get(tp)
        consumer = self._consumer()
        try:
            known = None if consumer is None else consumer.log_end(tp)
        except ConsumerNotStarted:
            known = None
        if known is None or asked is None:
            return asked if known is None else known.high_watermark
        high_watermark = known.high_watermark
        return high_watermark if known.answered_ms >= probed.asked_ms else max(high_watermark, asked)

    def unread(self, reader: WatchedReader | None) -> dict[str, int]:
        """The unread records of each reference topic, without topics whose end is unknown."""
        found: dict[str, int] = {}
        if reader is None:
            return found
        for topic in REFERENCE_TOPICS:
            end = self._probed().ends.get(TP(full_name(topic, self._prefix), 0))
            if end is not None:
                read = max(reader.next.get(topic, 0), reader.read_to.get(topic, 0))
                found[str(topic)] = max(end - read, 0)
        return found


def price_age_ms(reader: WatchedReader | None, clock_ms: int) -> int | None:
    """The time since the newest price was appended; None: there is none."""
    newest_ms = None if reader is None else reader.newest_ms.get(Topic.PRICES)
    return None if newest_ms is None else max(clock_ms - newest_ms, 0)
