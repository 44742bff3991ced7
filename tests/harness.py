"""The engine without Kafka and ClickHouse: a log in, the tables out, in the oracle's words.

Cuts the log into batches anywhere, checkpoints at each cut, restarts from snapshots where asked; the store is a
dict with ReplacingMergeTree's rule.  It computes nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count, pairwise

import pyarrow as pa

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.tables import (
    ARCHIVE,
    DEAD_LETTERS,
    JOB_HOURS,
    JOB_MINUTES,
    NODE_HOURS,
    NODE_MINUTES,
    SCHEMAS,
    UNATTRIBUTED_MINUTES,
)
from streams.engine.batch import LogBatch, LogRecord, Record
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.settings import FUTURE_MS, ShardSettings
from streams.engine.shard.books import Books
from streams.engine.shard.shard import Shard
from tests.engine.stepping import step
from tests.harness_store import DictStore, Snapshot, chain_of
from tests.oracle.model import Counts, Line, Tables
from tests.raw_records import raw
from tests.stored_rows import tables_of

FAR_FUTURE_MS = 4_102_444_800_000


class Meter:
    """All shards of a log, fed piece by piece."""

    def __init__(self, settings: ShardSettings, *, as_bytes: bool = False) -> None:
        self.settings = settings
        self.records: Callable[[list[LogRecord]], Sequence[Record]] = raw if as_bytes else list
        self.store = DictStore()
        self.book = PriceBook.empty()
        self.shards: dict[int, Shard] = {}
        self.offsets: dict[tuple[str, int], int] = {}
        self.positions: dict[tuple[str, int, int], int] = {}
        self.dead: list[tuple[int, str]] = []
        self.others = Books()
        self.newest_ms = 0
        self.snapshots: dict[int, list[Snapshot]] = {}
        self.log: dict[tuple[str, int], list[LogRecord]] = {}
        self.versions = count(1)

    def feed(self, lines: Sequence[tuple[int, Line]]) -> None:
        """One piece of the log: a batch per topic and partition, in the order of their first lines."""
        batches: dict[tuple[str, int], list[LogRecord]] = {}
        prices: list[PriceEvent] = []
        for index, line in lines:
            value = line.value if isinstance(line.value, bytes) else json.dumps(line.value).encode()
            headers = [(name, text.encode()) for name, text in (line.headers or {}).items()]
            event = decode(line.topic, value, headers, self.settings.newest_allowed_ms(0))
            if not isinstance(event, Invalid):
                self.newest_ms = max(self.newest_ms, event.time_ms)
            if line.topic in ("prices", "controls"):
                self._take_reference(index, event, prices)
                continue
            where = (line.topic, line.partition)
            offset = self.offsets.get(where, 0)
            self.offsets[where] = offset + 1
            self.positions[(*where, offset)] = index
            record = LogRecord(offset, self.newest_ms, value, headers)
            self.log.setdefault(where, []).append(record)
            batches.setdefault(where, []).append(record)
        self.book = self.book.with_events(prices)
        for (topic, partition), records in batches.items():
            batch = LogBatch(
                topic, partition, records[0].offset, records[-1].offset + 1, self.records(records)
            )
            self._step(self._shard(partition), [batch], open_attempts=False)

    def _take_reference(self, index: int, event: object, prices: list[PriceEvent]) -> None:
        self.others.records_in += 1
        if isinstance(event, Invalid):
            self.others.dead_lettered += 1
            self.dead.append((index, str(event.reason)))
            return
        self.others.applied += 1
        if isinstance(event, PriceEvent):
            prices.append(event)

    def _shard(self, number: int) -> Shard:
        if number not in self.shards:
            self.shards[number] = Shard(number, self.settings, self.book)
            self.snapshots[number] = []
        return self.shards[number]

    def _step(
        self, shard: Shard, batches: Sequence[LogBatch], *, open_attempts: bool, as_of_ms: int = -1
    ) -> None:
        self._adopt_repriced(shard, shard.set_prices(self.book))
        taken = step(
            shard,
            batches,
            self.book,
            lambda wanted: self.store.fetch(shard.number, wanted),
            self.newest_ms if as_of_ms < 0 else as_of_ms,
            self.versions,
            open_attempts=open_attempts,
        )
        for checkpoint in taken:
            for name, rows in checkpoint.tables.items():
                self.store.insert(name, rows)
            self.snapshots[shard.number].append(
                Snapshot(checkpoint.version, checkpoint.parent, checkpoint.snapshot, checkpoint.root)
            )

    def _adopt_repriced(self, shard: Shard, news: PriceChanges | None) -> None:
        """Archived jobs that were paid in a time in which prices may differ, if they do."""
        if news is None or news.events_span is None:
            return
        from_ms, until_ms = news.events_span
        touched = {
            str(row["job_id"])
            for (number, *_), row in self.store.tables[ARCHIVE].items()
            if number == shard.number
            and int(str(row["last_ms"])) >= from_ms
            and int(str(row["first_ms"])) < until_ms
        }
        shard.adopt_repriced(self.store.fetch(shard.number, shard.absent(touched)), news)

    def checkpoint(self, as_of_ms: int) -> None:
        """All shards, with what goes on."""
        for shard in self.shards.values():
            self._step(shard, [], open_attempts=True, as_of_ms=as_of_ms)

    def restart(self) -> None:
        """Throw every shard away and restore it from its snapshots."""
        self.crash(0)

    def crash(self, lost: int) -> None:
        """As after a kill between storing rows and storing snapshots: the `lost` newest snapshots are missing.

        Each shard is restored from what is left, rows stored after it are put right, and the log is read again.
        """
        for number in self.shards:
            chain = self._chain(number, lost)
            shard = Shard.restore(number, self.settings, self.book, [snapshot.blob for snapshot in chain])
            self.shards[number] = shard
            known = chain[-1].version if chain else 0
            for table in (JOB_MINUTES, JOB_HOURS, NODE_MINUTES, NODE_HOURS, UNATTRIBUTED_MINUTES):
                self._put_right(shard, table, known)
            self._adopt_repriced(shard, shard.price_changes)
            for (topic, partition), records in sorted(self.log.items()):
                again = records[shard.position.next.get(topic, 0) :]
                if partition == number and again:
                    batch = LogBatch(
                        topic, partition, again[0].offset, again[-1].offset + 1, self.records(again)
                    )
                    self._step(shard, [batch], open_attempts=False)

    def _chain(self, number: int, lost: int) -> list[Snapshot]:
        """What is left, from its root on."""
        left = self.snapshots[number][: len(self.snapshots[number]) - lost]
        self.snapshots[number] = left
        return chain_of(left)

    def _put_right(self, shard: Shard, table: str, known: int) -> None:
        newer = [
            row
            for row in self.store.tables[table].values()
            if row["shard"] == shard.number and row["version"] > known
        ]
        if newer:
            jobs = {row["job_id"] for row in newer if "job_id" in row}
            shard.adopt(self.store.fetch(shard.number, shard.absent(jobs)))
            rows = pa.Table.from_pylist([dict(row) for row in newer], schema=SCHEMAS[table])
            self.store.insert(table, shard.read_back(table, rows, next(self.versions)))

    def tables(self) -> Tables:
        """What the store holds, in the oracle's words."""
        found = tables_of(self.store.select)
        letters = [
            (self.positions[row["topic"], row["partition"], row["offset"]], str(row["reason"]))
            for row in self.store.tables[DEAD_LETTERS].values()
        ]
        found.dead = sorted([*letters, *self.dead])
        found.counts = _counts(self.shards.values(), self.others)
        return found


def meter(
    lines: Sequence[Line],
    *,
    as_of_ms: int | None = None,
    cuts: Sequence[int] = (),
    restarts: Sequence[int] = (),
    crashes: Mapping[int, int] | None = None,
    open_at: Sequence[int] = (),
    settings: ShardSettings | None = None,
    as_bytes: bool = False,
) -> Tables:
    """The tables that the engine makes of a log; `as_bytes`: its records come as a fetch brings them.

    `cuts`: positions in `lines` at which a batch ends (and a checkpoint is taken); at those in `restarts` all
    state is thrown away and restored from snapshots; at those in `crashes` the given number of newest snapshots
    is lost besides (their rows are not); at those in `open_at` attempts that go on are booked too.
    """
    machine = Meter(
        settings
        or ShardSettings(
            run_start_ms=FAR_FUTURE_MS - FUTURE_MS, rows_per_checkpoint=200, snapshots_per_round=2
        ),
        as_bytes=as_bytes,
    )
    crashes = crashes or {}
    edges = sorted(
        {0, *(cut for cut in (*cuts, *restarts, *crashes, *open_at) if 0 < cut < len(lines)), len(lines)}
    )
    numbered = list(enumerate(lines))
    for begin, end in pairwise(edges):
        machine.feed(numbered[begin:end])
        if end in open_at:
            machine.checkpoint(machine.newest_ms)
        if end in restarts:
            machine.restart()
        if end in crashes:
            machine.crash(crashes[end])
    machine.checkpoint(machine.newest_ms if as_of_ms is None else as_of_ms)
    return machine.tables()


def _counts(shards: Iterable[Shard], others: Books) -> Counts:
    total = others
    for shard in shards:
        total = total.plus(shard.books)
    assert total.balanced, total
    return Counts(total.applied, total.duplicate, total.too_late, total.dead_lettered, total.unattributed)
