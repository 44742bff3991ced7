"""Stand-ins: a shard that only counts and sums, and a store of files that several processes may share.

They must keep what the real ones promise: a fold without waiting, a state that is a function of the log prefix.
"""

from __future__ import annotations

import os
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import pyarrow as pa

from schemas.tables import DEAD_LETTERS
from sinks.port import Store
from sinks.snapshots import Chain, Snapshot
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.rows import alerts_table
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceView
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.shard.books import Books, Tally
from streams.engine.shard.checkpoint import Checkpoint
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table
from streams.engine.shard.parts import LogPosition
from streams.engine.shard.sequencer import TICK_MS, Ticks
from streams.engine.shard.shard import Shard
from streams.engine.shard.snapshot_progress import SnapshotProgress
from streams.worker.shards.ports import ShardFactory


class State(msgspec.Struct):
    """Per topic: what was read, how many records, the sum of their numbers."""

    next: dict[str, int] = {}
    count: dict[str, int] = {}
    sum: dict[str, int] = {}
    trimmed: int = 0


def point(
    version: int, tables: dict[str, pa.Table], snapshot: bytes, next_offsets: dict[str, int]
) -> Checkpoint:
    """A checkpoint; the snapshot is always a base."""
    return Checkpoint(
        shard=0,
        version=version,
        parent=0,
        root=0,
        frees=True,
        tables=tables,
        snapshot=snapshot,
        next=next_offsets,
        rows=0,
        more=False,
        alerts=[],
    )


@dataclass
class CountingShard:
    """Records are decimal numbers; what is none becomes a dead letter."""

    number: int
    book: PriceBook
    state: State
    refused: list[DeadLetter] = field(default_factory=list)
    price_changes: PriceChanges | None = None
    saved: dict[str, int] = field(default_factory=dict)
    prices_seen: int = 0
    opened: int = 0
    jobs_live: int = 0
    position: LogPosition = field(default_factory=LogPosition)
    tallies: dict[str, Tally] = field(default_factory=dict)
    snapshots: SnapshotProgress = field(default_factory=lambda: SnapshotProgress(PriceBook.empty()))
    judged: list[Ticks] = field(default_factory=list)
    looks: list[int] = field(default_factory=list)
    is_storing_urgent: bool = False
    rows_waiting: int = 0
    refused_bytes: int = 0
    sampled_bytes: int = 0
    alerts: list[Alert] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.position.next = self.state.next

    def judge(self, ticks: Ticks, view: ReferenceView) -> None:
        self.judged.append(ticks)
        self.position.expect_tick(ticks.last_ms + TICK_MS)

    def rewind(self, tick_ms: int) -> None:
        self.position.expect_tick(tick_ms)

    def write_interim_rates(self, now_ms: int, view: ReferenceView) -> None:
        self.looks.append(now_ms)

    @property
    def books(self) -> Books:
        read = sum(self.state.count.values())
        return Books(records_in=read, applied=read, trimmed=self.state.trimmed)

    @property
    def alerts_changed(self) -> bool:
        return bool(self.alerts)

    def drain_alerts(self, version: int) -> tuple[pa.Table, list[Alert]]:
        taken, self.alerts = self.alerts, []
        return alerts_table(taken, self.number, version), taken

    def missing(self, batch: LogBatch) -> Mapping[str, int]:
        return {}

    def missing_at(self, ticks: Ticks, view: ReferenceView) -> Mapping[str, int]:
        return {}

    def put_back_books(
        self, books: pa.Table, dead_letter_counts: pa.Table, version: int
    ) -> dict[str, pa.Table]:
        return {}

    def adopt_repriced(self, blobs: Mapping[str, bytes], news: PriceChanges) -> None:
        raise AssertionError("nothing is archived here")

    def forget_archived(self, job_ids: Iterable[str]) -> None:
        raise AssertionError("nothing is archived")

    def adopt(self, blobs: Mapping[str, bytes]) -> None:
        raise AssertionError("nothing is archived here")

    def absent(self, job_ids: Iterable[str]) -> Mapping[str, int]:
        return {}

    def fold(self, batch: LogBatch) -> int | None:
        expected = self.position.next.get(batch.topic, 0)
        if batch.start > expected:
            return expected
        first = bisect_left(batch.records, expected, key=lambda record: record.offset)
        self.state.trimmed += first
        for record in batch.records[first:]:
            value = record.value or b""
            self.sampled_bytes += len(value) + 64
            if value.isdigit():
                self.state.count[batch.topic] = self.state.count.get(batch.topic, 0) + 1
                self.state.sum[batch.topic] = self.state.sum.get(batch.topic, 0) + int(value)
            else:
                place = (batch.topic, batch.partition, record.offset)
                self.refused.append(
                    DeadLetter(*place, "malformed_json", "no number", value, record.timestamp)
                )
        self.position.next[batch.topic] = max(expected, batch.end)
        return None

    def set_prices(self, book: PriceBook) -> PriceChanges | None:
        self.prices_seen += book is not self.book
        self.book = book
        return None

    def checkpoint(
        self, as_of_ms: int, version: int, *, open_attempts: bool, rows_only: bool = False
    ) -> Checkpoint:
        self.opened += open_attempts
        self.sampled_bytes = 0
        tables = {DEAD_LETTERS: dead_letter_table(self.refused, version)} if self.refused else {}
        self.refused = []
        self.state.next = dict(self.position.next)
        if not rows_only:
            self.saved = self.state.next
        blob = b"" if rows_only else msgspec.json.encode(self.state)
        return point(version, tables, blob, dict(self.position.next))

    def owe_books(self) -> None:
        """Its books are of no interest here."""

    def unsaved(self, as_of_ms: int, *, open_attempts: bool) -> bool:
        return self.saved != self.position.next or bool(self.refused) or open_attempts

    def read_back(self, table: str, rows: pa.Table, version: int) -> pa.Table:
        return rows.slice(0, 0)


def as_shard(shard: CountingShard) -> Shard:
    """For whoever asks for a shard and uses no more of it than a `CountingShard` has."""
    return cast("Shard", shard)


def counting_shards() -> ShardFactory:
    def make(number: int, book: PriceBook, blobs: Sequence[bytes]) -> Shard:
        state = msgspec.json.decode(blobs[-1], type=State) if blobs else State()
        return as_shard(CountingShard(number, book, state))

    return make


class FileStore:
    """Snapshots as files, so that another process finds them; rows are counted and forgotten."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.snapshots = self.archive = self.readback = self.meta = self

    def save_all(self, snapshots: Sequence[Snapshot]) -> None:
        for shard, version, _, blob, _ in snapshots:
            self._save(shard, version, blob)

    def _save(self, shard: int, version: int, blob: bytes) -> None:
        path = self._directory / f"{shard}-{version:020}"
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        with temporary.open("wb") as file:
            file.write(blob)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)

    def load(self, shard: int) -> Chain:
        found = sorted(self._directory.glob(f"{shard}-*"))
        return Chain(int(found[-1].name.split("-")[1]), [found[-1].read_bytes()]) if found else Chain(0, [])

    def prune(self, shard: int, keep: int) -> None:
        for path in sorted(self._directory.glob(f"{shard}-*"))[:-keep]:
            path.unlink(missing_ok=True)

    def max_version(self, shard: int) -> int:
        return self.load(shard).version

    def newer(self, table: str, shard: int, version: int, *, zeros: bool = False) -> pa.Table:
        return pa.table({})

    def any_between(self, table: str, shard: int, after: int, before: int) -> bool:
        return False

    def newer_books(self, shard: int, version: int) -> tuple[pa.Table, pa.Table]:
        return pa.table({}), pa.table({})

    def fetch(self, shard: int, job_ids: Iterable[str]) -> dict[str, bytes]:
        return {}

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Rows are of no interest here."""


def file_store(directory: Path) -> Store:
    """A FileStore as what the meter is handed; it can do only what counting shards need."""
    return cast("Store", FileStore(directory))
