"""Feeds the fleet's records into the embedded broker, and tracks how far the shards have processed them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence

from streams.demo.records import DemoRecord
from streams.keys import key_of
from streams.replay.broker import EmbeddedBroker
from streams.replay.feeder import FeedStopped, LogFeeder, Place
from streams.replay.lines import Sendable
from streams.replay.replay import has_judged, until
from streams.topics import REFERENCE_TOPICS, SHARD_TOPICS
from streams.transport.partitions import partition_of
from streams.worker.ingest.watermarks import Mark, ReplayWatermarks
from streams.worker.meter import Meter


class FleetLog:
    """One log, from its first record to the last."""

    def __init__(
        self,
        broker: EmbeddedBroker,
        topic_prefix: str,
        partitions: int,
        meter: Meter,
        watermarks: ReplayWatermarks,
    ) -> None:
        self._partitions = partitions
        self._meter = meter
        self._watermarks = watermarks
        self._stop = threading.Event()
        self._feeder = LogFeeder(broker.bootstrap_servers, topic_prefix, {}, self._read, self._stop)

    async def add(self, records: Sequence[DemoRecord], from_ms: int, to_ms: int) -> None:
        """Return when the broker has all records up to an instant; records older than `from_ms` get that log time."""
        if records:
            sendable = [self._sendable(record, from_ms) for record in records]
            try:
                await asyncio.to_thread(self._feeder.feed, sendable)
            except FeedStopped:
                return
        self._watermarks.mark = Mark(to_ms, dict(self._feeder.counts))

    async def metered(self, to_ms: int) -> None:
        """Return when the shards have folded everything that was added, and judged every tick up to an instant."""
        counts = self._feeder.counts
        await until(lambda: all(self._folded(place) >= count for place, count in counts.items()))
        owned = self._meter.shard_manager.owned.values()
        await until(lambda: all(has_judged(each, to_ms) for each in owned))

    def stop(self) -> None:
        """Stop a feed in progress."""
        self._stop.set()

    def _sendable(self, record: DemoRecord, not_before_ms: int) -> Sendable:
        key = key_of(record.topic, record.value)
        partition = partition_of(key, self._partitions) if record.topic in SHARD_TOPICS else 0
        log_ms = max(record.time_ms, not_before_ms)
        return Sendable(str(record.topic), partition, record.value, [], log_ms, key)

    def _folded(self, place: Place) -> int:
        topic, number = place
        if topic in REFERENCE_TOPICS:
            return int(self._meter.shard_manager.reference_next.get(topic, 0))
        owned = self._meter.shard_manager.owned.get(number)
        return 0 if owned is None else owned.shard.position.next.get(topic, 0)

    def _read(self, place: Place) -> int:
        """The next offset to read: the broker need not retain what was read, even if it waits for its tick."""
        owned = self._meter.shard_manager.owned.get(place[1])
        return (
            self._folded(place)
            if owned is None or place[0] in REFERENCE_TOPICS
            else owned.align.next_offset(place[0])
        )
