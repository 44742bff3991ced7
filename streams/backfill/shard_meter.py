"""Meters the sorted events of a backfill in a shard of its own, and stores it as a worker would: rows, then the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final

import pyarrow as pa

from schemas.columns import values_of
from schemas.tables import SCHEMAS, SNAPSHOTS
from sinks.port import Store
from sinks.rows import Condition
from streams.backfill.histories import Owner
from streams.backfill.sorting import TimedEvent
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.books import Books
from streams.engine.shard.checkpoint import Checkpoint
from streams.errors import TrainfareError
from streams.topics import SHARD_TOPICS, Topic
from streams.worker.shards.ports import ShardFactory
from streams.worker.takeover.fence import late_rows
from streams.worker.takeover.restore import (
    READ_BACK,
    WITHOUT_JOBS,
    Attempts,
    archived,
    restore,
    restore_as_new,
)

#: Below every generation of a group: a row of the live meter wins.
_GENERATION: Final = 0
_EVENTS_AT_ONCE: Final = 2_000
_EVENTS_PER_CHECKPOINT: Final = 20_000
_BASES_KEPT: Final = 2

#: Which of the events are left out.
IsLeftOut = Callable[[TimedEvent], bool]


class ShardMeter:
    """The shard of one backfill, restored from its newest snapshot. All calls block."""

    def __init__(
        self,
        store: Store,
        factory: ShardFactory,
        number: int,
        book: PriceBook,
        now_ms: int,
        rest: Callable[[], None] = lambda: None,
    ) -> None:
        """`rest` is called after each checkpoint, so that the store has time for others."""
        self._store = store
        self._number = number
        self._rest = rest
        restored = restore(store, factory, store.insert, Attempts(number, _GENERATION, book, now_ms))
        self._owned = restored.owned
        self._shard = self._owned.shard
        self._stored_version = self._newest_snapshot()
        self.rows = restored.rows_put_right

    @property
    def books(self) -> Books:
        """The record accounting since the backfill began."""
        return self._shard.books

    @property
    def is_repriced(self) -> bool:
        """Whether prices have changed since the snapshot was stored."""
        return self._shard.price_changes is not None

    @property
    def version(self) -> int:
        """The version of the newest snapshot."""
        return self._shard.snapshots.version

    def has(self, owner: Owner) -> bool:
        """Whether this backfill has metered something of the job or node before."""
        if owner.is_node:
            return owner.name in self._shard.nodes
        return owner.name in self._shard.jobs or self._shard.archived.version_of(owner.name) is not None

    def feed(
        self, events: Iterable[TimedEvent], is_left_out: IsLeftOut, advance: Callable[[int], None]
    ) -> None:
        """Meter all events, sorted, from the beginning on: those that the snapshot has are passed over.

        Raises:
            TrainfareError: Another process meters the same backfill.
        """
        counted = dict.fromkeys(SHARD_TOPICS, 0)
        fresh, feed = 0, iter(events)
        while chunk := list(islice(feed, _EVENTS_AT_ONCE)):
            for batch in self._batches(chunk, counted, is_left_out):
                self._fold(batch)
                fresh += len(batch.records)
            if fresh >= _EVENTS_PER_CHECKPOINT:
                self._store_all(0, open_attempts=False)
                fresh = 0
            advance(len(chunk))

    def finish(self, as_of_ms: int) -> None:
        """Store what is left; nodes that go on are paid up to `as_of_ms`. The record accounting is stored last.

        Raises:
            TrainfareError: Another process meters the same backfill.
        """
        self._fence_late_rows()
        self._store_all(as_of_ms, open_attempts=True)

    def store_rows(self, tables: Mapping[str, pa.Table], token: str) -> None:
        """Store rows of the backfill that are not the shard's; the token names their content."""
        for name in (name for name in SCHEMAS if name in tables):
            self._store.insert(name, tables[name], f"backfill:{name}:{self._number}:{token}")

    def _batches(
        self, chunk: Sequence[TimedEvent], counted: dict[Topic, int], is_left_out: IsLeftOut
    ) -> Iterator[LogBatch]:
        """Yield a batch for each topic. What is left out has an offset, and no record: whoever resumes may leave out more."""
        records: dict[Topic, list[LogRecord]] = {topic: [] for topic in SHARD_TOPICS}
        following = self._shard.position.next
        for event in chunk:
            offset = counted[event.topic]
            counted[event.topic] += 1
            if offset >= following.get(event.topic, 0) and not is_left_out(event):
                records[event.topic].append(LogRecord(offset, event.time_ms, event.value, event.headers))
        for topic in SHARD_TOPICS:
            start = following.get(topic, 0)
            if counted[topic] > start:
                yield LogBatch(str(topic), self._number, start, counted[topic], records[topic])

    def _fold(self, batch: LogBatch) -> None:
        self._adopt(self._shard.missing(batch))
        self._owned.feed(batch)

    def _adopt(self, wanted: Mapping[str, int]) -> None:
        """Load archived jobs (id -> version of their state) into memory."""
        blobs = archived(self._store, self._number, wanted)
        self._shard.adopt(blobs)
        restore_as_new(self._shard, self._number, {j: v for j, v in wanted.items() if j not in blobs})

    def _fence_late_rows(self) -> None:
        """Correct what a process that was killed had sent, and the server stored after the restore."""
        shard = self._shard
        for table in READ_BACK:
            late = late_rows(self._store, self._owned, table)
            if not late.num_rows:
                continue
            if table not in WITHOUT_JOBS:
                self._adopt(shard.absent(set(values_of(late["job_id"]))))
            version = self._owned.versions.next()
            rows = shard.read_back(table, late, version)
            if rows.num_rows:
                self._store.insert(table, rows, f"backfill:late:{table}:{self._number}.{version}")
        shard.snapshots.end_sweep()

    def _store_all(self, as_of_ms: int, *, open_attempts: bool) -> None:
        if open_attempts:
            self._owned.owe_open(as_of_ms)
        while (taken := self._owned.checkpoint(as_of_ms)) is not None:
            self._store_checkpoint(taken.checkpoint)
            self._rest()
            if not taken.checkpoint.more:
                return

    def _store_checkpoint(self, point: Checkpoint) -> None:
        """Store rows first: after a crash they are written again, and the restore corrects what has no successor."""
        self._refuse_another()
        for name in (name for name in SCHEMAS if name in point.tables):
            rows = point.tables[name]
            if rows.num_rows:
                self._store.insert(name, rows, f"backfill:{name}:{self._number}.{point.version}")
                self.rows += rows.num_rows
        self._store.snapshots.save(self._number, point.version, point.parent, point.snapshot, point.root)
        self._stored_version = point.version
        if point.frees:
            self._store.snapshots.prune(self._number, _BASES_KEPT)

    def _refuse_another(self) -> None:
        newest = self._newest_snapshot()
        if newest != self._stored_version:
            raise TrainfareError(
                "another process meters the same backfill; let that one end, then run the same command again"
            )

    def _newest_snapshot(self) -> int:
        return self._store.newest_version(SNAPSHOTS, [Condition("shard", "=", self._number)])
