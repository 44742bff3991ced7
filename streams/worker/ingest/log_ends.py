"""Finds the end of the log, from the consumer and from a client of our own, and the unread prices and controls.

It must not ask Kafka: both have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from faust.exceptions import ConsumerNotStarted
from faust.types import TP

from streams.engine.shard.books import Books
from streams.topics import REFERENCE_TOPICS, Topic, full_name
from streams.worker.health.probe import ProbeResult
from streams.worker.ingest.watermarks import LogEnds


class WatchedReader(Protocol):
    """The reader of prices and controls, as far as it is looked at."""

    books: Books
    next: Mapping[str, int]
    read_to: Mapping[str, int]
    newest_ms: Mapping[str, int]


class Ends:
    """The ends of the partitions of one meter."""

    def __init__(
        self, consumer: Callable[[], LogEnds | None], probed: Callable[[], ProbeResult], topic_prefix: str
    ) -> None:
        self._consumer = consumer
        self._probed = probed
        self._prefix = topic_prefix

    def of(self, topic: str, number: int, _offset: int) -> int | None:
        """The high watermark: what an open transaction holds is behind, too.

        The consumer's own end knows markers that are no records; but it is old where the consumer stands still.
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
        """Records of each reference topic that are not read yet; none of a topic whose end is not known."""
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
    """Since the newest price was appended; None: there is none."""
    newest_ms = None if reader is None else reader.newest_ms.get(Topic.PRICES)
    return None if newest_ms is None else max(clock_ms - newest_ms, 0)
