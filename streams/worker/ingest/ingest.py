"""Feeds batches to shards in the order of log time, with ticks between them.

No await lies between the last check of a shard's ownership and the end of its fold.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final

from streams.engine.batch import LogBatch
from streams.engine.raw_records import first_from
from streams.engine.shard.sequencer import TICK_MS, FoldStep, Ticks
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.faust_types import TP
from streams.worker.ingest.ingest_counts import IngestCounts
from streams.worker.log_time import OFF_MS
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import LogConsumer, WatermarkSource
from streams.worker.takeover.rehydrate import Rehydrator

logger = logging.getLogger(__name__)

_REFETCH_EVERY_MS: Final = 1_000
#: Ticks judged in one go, between which the event loop serves heartbeats: so many that they are about `_CELLS_AT_ONCE`
#: pairs of a tick and a job, within these bounds.
_TICKS_AT_LEAST: Final = 2_000
_TICKS_AT_MOST: Final = 50_000
_CELLS_AT_ONCE: Final = 200_000
#: Ticks of at most this age are current.
_OF_NOW_MS: Final = 3 * TICK_MS
#: A topic this many records ahead of the others of its shard is paused until they catch up.
_RECORDS_AHEAD: Final = 50_000


class Ingest:
    """Orders batches and ticks. Without a watermark source every batch is folded on arrival, and no tick is judged."""

    def __init__(
        self,
        rehydrator: Rehydrator,
        consumer: Callable[[], LogConsumer],
        options: ShardManagerOptions,
        watermarks: WatermarkSource | None,
        owned: Mapping[int, OwnedShard],
        publish_alerts: Callable[[OwnedShard], None] = lambda _owned: None,
    ) -> None:
        """Set up ingestion; `publish_alerts` is called with a shard that has new alerts of a current tick."""
        self._publish_alerts = publish_alerts
        self._rehydrator = rehydrator
        self._consumer = consumer
        self._options = options
        self._watermarks = watermarks
        self._owned = owned
        #: Set when a checkpoint should follow immediately.
        self.urgent = asyncio.Event()
        #: Whether the worker is catching up, and checkpoints at longer intervals until the end is read.
        self.awaits_end = False
        #: How often records were fetched again because they were lost in a fetch.
        self.refetches = 0
        #: How often a shard was found to have judged ticks beyond log time.
        self.rewinds = 0
        self.ingest_counts = IngestCounts()

    async def accept(self, owned: OwnedShard, *batches: LogBatch) -> None:
        """Queue or fold batches of one shard; request again what is missing before them."""
        if self._watermarks is None:
            for batch in batches:
                if await self._feed(owned, batch) is False:
                    await self.fill_holes()
            return
        for batch in batches:
            self._watermarks.observe_batch(batch)
        latest_ms = self._watermarks.latest_ms()
        behind_holes = [batch for batch in batches if not owned.offer(batch, latest_ms)]
        for batch in behind_holes:
            self.ingest_counts.gave_back(batch)
        if behind_holes:
            await self.fill_holes()
        if len(behind_holes) < len(batches):
            await self.advance(owned)

    def began(self, owned: OwnedShard) -> None:
        """Raise log time to what a restored shard had reached."""
        if self._watermarks is not None and owned.align.tick_ms is not None:
            self._watermarks.restore(owned.align.tick_ms - TICK_MS)

    def observe_unsharded(self, *logs: Sequence[tuple[int, *tuple[object, ...]]]) -> None:
        """Take into account the log times of records that belong to no shard; each tuple begins with its log time (ms)."""
        log_ms = [each[0] for log in logs for each in log]
        if self._watermarks is not None and log_ms:
            self._watermarks.observe(max(log_ms))

    async def advance(self, owned: OwnedShard) -> None:
        """Fold and judge up to the shard's watermark."""
        if self._watermarks is None:
            return
        async with owned.one_feeds:
            self._rewind(owned, self._watermarks.live_ms())
            horizon = partial(_horizon, self._watermarks, owned.number)
            for step in owned.align.steps(horizon):
                if self._owned.get(owned.number) is not owned or owned.gone:
                    return
                tick_ms = step.first_ms if isinstance(step, Ticks) else owned.align.tick_ms
                owned.shard.position.expect_tick(tick_ms)
                if isinstance(step, FoldStep):
                    fed = await self._feed(owned, step.batch)
                    if fed is None:
                        return
                    if not fed:
                        # The shard and its queue disagree on the next offset: read everything again rather than skip
                        # records.
                        self.ingest_counts.reset(owned)
                        owned.align.reset(owned.shard.position.next)
                        await self.fill_holes()
                        return
                    continue
                if not await self._judge(owned, step, self._watermarks):
                    return
            if self._has_caught_up(self._watermarks):
                self.urgent.set()

    async def _judge(self, owned: OwnedShard, ticks: Ticks, watermarks: WatermarkSource) -> bool:
        """Judge ticks; return False if the shard was revoked meanwhile."""
        for part in _parts(ticks, owned.shard.jobs_live):
            if not await self._rehydrator.for_ticks(owned, part):
                return False
            owned.shard.judge(part, owned.view)
            await asyncio.sleep(0)
            if owned.gone:
                return False
        if ticks.last_ms > watermarks.clock_ms() - _OF_NOW_MS:
            # old ticks come in large numbers; their alerts are stored with the next checkpoint
            self._publish_alerts(owned)
        if owned.shard.is_storing_urgent or (self._options.hurries_alerts and owned.shard.alerts_changed):
            self.urgent.set()
        return True

    def _rewind(self, owned: OwnedShard, live_ms: int | None) -> None:
        """Set a shard back that has judged ticks beyond log time, else it would stay silent until log time reaches them."""
        tick_ms = owned.align.tick_ms
        if live_ms is None or tick_ms is None or tick_ms - TICK_MS <= live_ms + OFF_MS:
            return
        ahead_s = (tick_ms - live_ms) // 1000
        logger.warning(
            "shard was ahead of the log and goes back",
            extra={
                "shard": owned.number,
                "ahead_s": ahead_s,
                "runbook": "docs/trouble.md#self-monitoring",
            },
        )
        self.rewinds += 1
        owned.rewind(-(-live_ms // TICK_MS) * TICK_MS)

    @property
    def fed_bytes(self) -> int:
        """The bytes folded into all shards since their last checkpoints."""
        return sum(owned.fed_bytes for owned in self._owned.values())

    def _has_caught_up(self, watermarks: WatermarkSource) -> bool:
        """Whether a backlog that waits for a checkpoint has been read to the known end of the log."""
        much_bytes = self._options.caught_up_bytes
        if much_bytes is None or self.fed_bytes < (1 if self.awaits_end else much_bytes):
            return False
        return not _is_more(watermarks, self._owned.values())

    def is_behind(self) -> bool:
        """Whether the log is known to hold more than was read."""
        return self._watermarks is not None and _is_more(self._watermarks, self._owned.values())

    async def _feed(self, owned: OwnedShard, batch: LogBatch) -> bool | None:
        """Fold a batch; return False if records before it are missing, None if the shard was revoked meanwhile."""
        owned.in_hand[batch.topic] += len(batch.records)
        try:
            if not await self._rehydrator.for_batch(owned, batch):
                return None
        finally:
            owned.in_hand[batch.topic] -= len(batch.records)
        trimmed = first_from(batch.records, owned.shard.position.next.get(batch.topic, 0))
        if not owned.feed(batch):
            self.ingest_counts.gave_back(batch)
            return False
        self.ingest_counts.fed(owned, batch, trimmed)
        return True

    async def rest(self, at_most_s: float) -> bool:
        """Wait until a checkpoint is urgent, at most `at_most_s` seconds; return whether one is."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.urgent.wait(), at_most_s)
        urgent = self.urgent.is_set()
        self.urgent.clear()
        return urgent

    def until_tick_ms(self) -> int | None:
        """The ms until the next tick of any shard; 0: one is due, or records wait for it; None: there is none."""
        if self._watermarks is None or not self._owned:
            return None
        if any(owned.align.waits for owned in self._owned.values()):
            return 0
        ticks_ms = [owned.align.tick_ms for owned in self._owned.values() if owned.align.tick_ms is not None]
        return max(min(ticks_ms) - self._watermarks.clock_ms(), 0) if ticks_ms else None

    async def advance_all(self) -> None:
        """Judge the shards whose next tick is due."""
        clock_ms = -1 if self._watermarks is None else self._watermarks.clock_ms()
        for owned in list(self._owned.values()):
            tick_ms = owned.align.tick_ms
            if owned.align.waits or (tick_ms is not None and tick_ms <= clock_ms):
                await self.advance(owned)

    def too_far_ahead(self) -> set[TP]:
        """The partitions to pause until the other topics of their shard have caught up."""
        prefix = self._options.topic_prefix
        return {
            TP(full_name(topic, prefix), owned.number)
            for owned in list(self._owned.values())
            for topic in SHARD_TOPICS
            if owned.align.waiting(topic) > _RECORDS_AHEAD
        }

    async def fill_holes(self) -> None:
        """Fetch missing records again.

        Raises:
            TrainfareError: The log itself no longer has them.
        """
        now_ms = self._options.now_ms()
        for owned in list(self._owned.values()):
            for topic, hole in list(owned.holes.items()):
                if not hole.due(now_ms, _REFETCH_EVERY_MS):
                    continue
                name = full_name(topic, self._options.topic_prefix)
                hole.mark_requested(now_ms, _REFETCH_EVERY_MS)
                if hole.missed_ms > self._options.hole_patience_ms:
                    raise TrainfareError(
                        f"topic {name} partition {owned.number} lacks records {hole.offset} to {hole.found - 1}, which "
                        "were never metered; restore them, or begin anew with another group and an empty store"
                    )
                logger.warning(
                    "records are missing, reading again",
                    extra={
                        "topic": name,
                        "partition": owned.number,
                        "offset": hole.offset,
                        "found_offset": hole.found,
                        "runbook": "docs/trouble.md#records-are-missing",
                    },
                )
                self.refetches += 1
                await self._consumer().refetch(TP(name, owned.number), hole.offset)


def _is_more(watermarks: WatermarkSource, shards: Iterable[OwnedShard]) -> bool:
    """Whether any partition of these shards may hold more records."""
    return any(
        watermarks.quiet_until_ms(topic, owned.number, owned.align.next_offset(topic)) < 0
        for owned in shards
        for topic in SHARD_TOPICS
    )


def _horizon(watermarks: WatermarkSource, number: int, topic: str, next_offset: int) -> int:
    return watermarks.quiet_until_ms(topic, number, next_offset)


def _parts(ticks: Ticks, jobs: int) -> Iterator[Ticks]:
    step_ms = min(max(_CELLS_AT_ONCE // max(jobs, 1), _TICKS_AT_LEAST), _TICKS_AT_MOST) * TICK_MS
    for first_ms in range(ticks.first_ms, ticks.last_ms + 1, step_ms):
        yield Ticks(first_ms, min(first_ms + step_ms - TICK_MS, ticks.last_ms))
