"""A shard that this worker owns, with what ownership adds to its state: log holes, versions, in-flight checkpoints."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from streams.engine.batch import LogBatch
from streams.engine.raw_records import RawRecords
from streams.engine.reference_log import ReferenceLog, ReferenceView
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.sequencer import Sequencer
from streams.engine.shard.shard import Shard
from streams.topics import Topic
from streams.worker.shards.shard_counts import counted
from streams.worker.shards.versions import VersionClock

#: Approximate size of a burn rate row in memory.
_BURN_ROW_BYTES: Final = 128
#: Approximate size of a checkpoint row: 450,000 rows of the ledger and of burn rates are 64 MiB of Arrow.
_ROW_BYTES: Final = 150
#: Approximate overhead of a record beside its value.
_RECORD_BYTES: Final = 64


@dataclass
class LogHole:
    """Records [offset, found) of a topic did not arrive: lost in a fetch, or deleted from the log."""

    offset: int
    found: int
    asked_ms: int | None = None
    missed: bool = False  # whether another batch arrived since then that begins behind the hole
    missed_ms: int = 0  # for how long; time without any fetch response does not count, as it proves nothing

    def due(self, now_ms: int, every_ms: int) -> bool:
        """Whether to request the records now, and not for every batch that was already in flight behind the hole."""
        return self.asked_ms is None or now_ms - self.asked_ms >= every_ms

    def mark_requested(self, now_ms: int, every_ms: int) -> None:
        """Record that the missing records were requested."""
        if self.missed and self.asked_ms is not None:
            self.missed_ms += min(now_ms - self.asked_ms, 2 * every_ms)
        self.asked_ms, self.missed = now_ms, False


@dataclass(frozen=True)
class Takeover:
    """Versions at the restore: the last whose rows are known to be correct, and the first of this owner."""

    known: int
    first: int


@dataclass(eq=False)
class OwnedShard:
    """One shard and the state of its processing by this worker."""

    number: int
    shard: Shard
    versions: VersionClock
    takeover: Takeover
    sweep_due_ms: int | None = None
    left_over: bool = False  # the last checkpoint could not hold everything
    rows_only: int = 0  # checkpoints since the last one with a snapshot
    # Set when another worker may own the shard: a flight under way then stops before the snapshot.
    gone: bool = False
    repricing: bool = False  # archived jobs affected by a price change are not in memory yet
    fed_bytes: int = 0  # bytes folded since the last checkpoint
    # Of these, all but samples: many samples become one row, see `sampled_bytes` of the shard.
    kept_bytes: int = 0
    # While open attempts are accrued in several checkpoints: the instant that all of them are accrued up to.
    open_as_of_ms: int | None = None
    holes: dict[str, LogHole] = field(default_factory=dict)  # by topic
    began: dict[str, int] = field(init=False)  # records counted at the takeover, by topic
    came_with: Counter[str] = field(init=False)  # every count at the takeover
    align: Sequencer = field(init=False)
    view: ReferenceView = field(default_factory=lambda: ReferenceLog().view())
    one_feeds: asyncio.Lock = field(default_factory=asyncio.Lock)
    folded: Counter[str] = field(default_factory=Counter)  # records by topic since the takeover
    # records by topic that were fetched and are about to be folded
    in_hand: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.align = Sequencer(self.shard.position.next, self.shard.position.tick_ms)
        self.began = {topic: tally.records_in for topic, tally in self.shard.tallies.items()}
        self.came_with = counted(self.shard)

    def offer(self, batch: LogBatch, latest_ms: int) -> bool:
        """Queue a batch to be folded at its log time; return False if records before it are missing (a hole)."""
        offset = self.align.offer(batch, latest_ms)
        if offset is None:
            self.holes.pop(batch.topic, None)
            return True
        self._set_hole(batch, offset)
        return False

    @property
    def waiting_bytes(self) -> int:
        """Approximate size in memory of what was folded and judged since the last checkpoint."""
        shard = self.shard
        return (
            self.kept_bytes + shard.sampled_bytes + shard.refused_bytes + shard.rows_waiting * _BURN_ROW_BYTES
        )

    def write_interim_rates(self, now_ms: int) -> None:
        """Write burn rates as of now; skipped while past ticks are still to be judged, which must not see later records."""
        tick_ms = self.align.tick_ms
        if tick_ms is not None and now_ms < tick_ms == self.shard.position.tick_ms and not self.align.waits:
            self.shard.write_interim_rates(now_ms, self.view)

    def rewind(self, tick_ms: int) -> None:
        """Set the next tick back to `tick_ms` and judge from there, with the state as of then."""
        self.align.tick_ms, self.view = tick_ms, self.view.again()
        self.shard.rewind(tick_ms)

    def waiting_records(self, topic: str) -> int:
        """How many records of the topic arrived and are not folded."""
        return self.align.waiting(topic) + self.in_hand[topic]

    def read_again(self) -> None:
        """Drop what waits: all partitions are sought again, and these records are fetched once more."""
        self.holes.clear()
        self.align.reset(self.shard.position.next)

    def feed(self, batch: LogBatch) -> bool:
        """Fold a batch; return False, and record a hole, if records before it are missing."""
        offset = self.shard.fold(batch)
        if offset is None:
            size_bytes = _size_bytes(batch)
            self.fed_bytes += size_bytes
            if batch.topic != Topic.GPU or not isinstance(batch.records, RawRecords):
                self.kept_bytes += size_bytes
            self.holes.pop(batch.topic, None)
            return True
        self._set_hole(batch, offset)
        return False

    def _set_hole(self, batch: LogBatch, offset: int) -> None:
        hole = self.holes.get(batch.topic)
        if hole is None or hole.offset != offset:
            self.holes[batch.topic] = LogHole(offset, batch.start)
        else:
            hole.missed = hole.asked_ms is not None

    def owe_open(self, as_of_ms: int) -> None:
        """Request that open attempts are accrued up to this instant, in as many checkpoints as it takes."""
        if self.open_as_of_ms is None:
            self.open_as_of_ms = as_of_ms

    def owes(self, as_of_ms: int) -> bool:
        """Whether there is anything to store."""
        instant_ms, open_attempts = self._clock(as_of_ms)
        return self.left_over or self.shard.unsaved(instant_ms, open_attempts=open_attempts)

    def checkpoint(self, as_of_ms: int, snapshots_every: int = 1) -> InFlightCheckpoint | None:
        """Build the next checkpoint; return None if there is nothing to store.

        `snapshots_every`: so many have one snapshot, and each accrual has one: what it changes of a job is short until
        other changes of the job follow.
        """
        if self.repricing:
            return None
        if not self.owes(as_of_ms):
            # Duplicates alone leave nothing to store; they must not count as waiting forever.
            self.open_as_of_ms, self.fed_bytes, self.kept_bytes = None, 0, 0
            return None
        instant_ms, open_attempts = self._clock(as_of_ms)
        rows_only = not open_attempts and self.rows_only + 1 < snapshots_every
        point = self.shard.checkpoint(
            instant_ms, self.versions.next(), open_attempts=open_attempts, rows_only=rows_only
        )
        self.rows_only = 0 if point.snapshot else self.rows_only + 1
        self.left_over, self.fed_bytes, self.kept_bytes = point.more, 0, 0
        self.open_as_of_ms = instant_ms if point.more and open_attempts else None
        return InFlightCheckpoint(self, point)

    def _clock(self, as_of_ms: int) -> tuple[int, bool]:
        """The instant that open attempts are accrued up to, and whether they are accrued at all."""
        return (as_of_ms, False) if self.open_as_of_ms is None else (self.open_as_of_ms, True)


@dataclass(frozen=True)
class InFlightCheckpoint:
    """A checkpoint that is retried until it is stored."""

    owned: OwnedShard
    checkpoint: Checkpoint

    @property
    def size_bytes(self) -> int:
        """Approximate size in memory."""
        return self.checkpoint.rows * _ROW_BYTES + len(self.checkpoint.snapshot)

    @property
    def next(self) -> Mapping[str, int]:
        """The offsets up to which the rows are complete; they may be committed once a snapshot with them is stored."""
        return self.checkpoint.next


def _size_bytes(batch: LogBatch) -> int:
    """Estimate the size of the batch from its first record."""
    if isinstance(batch.records, RawRecords):
        return batch.records.size_bytes + len(batch.records) * _RECORD_BYTES
    if not batch.records:
        return 0
    return len(batch.records) * (len(batch.records[0].value or b"") + _RECORD_BYTES)
