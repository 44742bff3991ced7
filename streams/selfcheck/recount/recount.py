"""Meters a part of the log again in memory, to compare its ledger rows with the stored ones.

The engine is the same, the sink is a dict; it must not read a log or write anything.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import rows_of
from schemas.durations import NEVER_MS
from schemas.tables import ARCHIVE, JOB_MINUTES, KEYS, NODE_MINUTES
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard

LEDGERS: Final = (JOB_MINUTES, NODE_MINUTES)
VALUES: Final[Mapping[str, tuple[str, ...]]] = {
    JOB_MINUTES: ("price_usd", "quantity", "cost_usd", "lost_quantity", "lost_cost_usd"),
    NODE_MINUTES: ("price_usd", "quantity", "cost_usd"),
}
#: Rows are derived after this many records, so that finished jobs leave memory.
_RECORDS_PER_CHECKPOINT: Final = 50_000

#: A row's key as text and integers: minutes in seconds, instants in ms since 1970.
Key = tuple[str | int, ...]
#: Its values: money in nano-dollars.
Row = tuple[int, ...]
Rows = dict[Key, Row]


class Span(NamedTuple):
    """Minutes of event time [from_ms, until_ms): those that begin in it."""

    from_ms: int
    until_ms: int


class Recount:
    """One shard's rows of a span, from its log; feed the log from its beginning."""

    def __init__(
        self, number: int, settings: ShardSettings, book: PriceBook, span: Span, paid_ms: int = NEVER_MS
    ) -> None:
        """`paid_ms`: log time up to which the stored rows accrue open attempts, as they may include later records."""
        self.shard = Shard(number, settings, PriceBook.empty())
        self.shard.set_prices(book)
        self.span = span
        self.rows: dict[str, Rows] = {table: {} for table in LEDGERS}
        self._paid_ms = paid_ms
        self._late: list[LogBatch] = []  # records after `paid_ms`, which are folded last
        self._touched: set[str] = set()  # the jobs and nodes of these records
        self._archive: dict[tuple[str, int], bytes] = {}
        self._fresh = 0

    def feed(self, batch: LogBatch) -> None:
        """Fold records that follow those before.

        Raises:
            ValueError: Records in between are missing.
        """
        late = bisect_right(batch.records, self._paid_ms, key=lambda record: record.timestamp)
        if late < len(batch.records):
            begin = batch.records[late].offset if late else batch.start
            self._late.append(replace(batch, start=begin, records=batch.records[late:]))
            batch = replace(batch, end=begin, records=batch.records[:late])
        if batch.start < batch.end:
            self._fold(batch)

    def _fold(self, batch: LogBatch) -> None:
        shard = self.shard
        missing = shard.missing(batch)
        shard.adopt({job_id: self._archive[job_id, version] for job_id, version in missing.items()})
        refetch_at = shard.fold(batch)
        if refetch_at is not None:
            raise ValueError(f"{batch.topic}/{batch.partition}: records from {refetch_at} on are missing")
        self._fresh += len(batch.records)
        if self._fresh >= _RECORDS_PER_CHECKPOINT:
            self._derive(0, open_attempts=False)

    def finish(self, as_of_ms: int) -> None:
        """Accrue open attempts up to an instant; the rows are complete then."""
        if self._late:
            self._derive(0, open_attempts=False)
            for batch in self._late:
                self._fold(batch)
            self.shard.publish_samples()
            self._touched = self.shard.due.dirty_jobs | self.shard.snapshots.changes.nodes
        self._derive(as_of_ms, open_attempts=True)

    @property
    def unsettled(self) -> frozenset[str]:
        """Jobs and open nodes that changed after the stored rows' accrual and have not ended: they cannot be compared."""
        nodes = {name for name, node in self.shard.nodes.items() if node.is_open}
        jobs = {name for name in self._touched if (job := self.shard.jobs.get(name)) and not job.has_ended}
        return frozenset(jobs | (self._touched & nodes))

    def _derive(self, as_of_ms: int, *, open_attempts: bool) -> None:
        self._fresh, more = 0, True
        while more:
            point = self.shard.checkpoint(
                as_of_ms, self.shard.snapshots.version + 1, open_attempts=open_attempts
            )
            more = point.more
            for row in rows_of(point.tables[ARCHIVE]) if ARCHIVE in point.tables else ():
                self._archive[row["job_id"], row["version"]] = row["blob"]
            for table in LEDGERS:
                if table in point.tables:
                    self._store(table, point.tables[table])

    def _store(self, table: str, rows: pa.Table) -> None:
        seconds = rows["minute"].cast(pa.int64())
        from_s, until_s = (pa.scalar(-(-ms // 1000), pa.int64()) for ms in self.span)
        inside = rows.filter(pc.and_(pc.greater_equal(seconds, from_s), pc.less(seconds, until_s)))
        for row in rows_of(inside):
            self.rows[table][key_of(table, row)] = tuple(_whole(row[name]) for name in VALUES[table])


def key_of(table: str, row: Mapping[str, Any]) -> Key:
    """A row's key as text and integers."""
    return tuple(_plain(name, row[name]) for name in KEYS[table])


def nonzero(rows: Mapping[Key, Row]) -> Rows:
    """The visible rows: a quantity of 0 is no row."""
    return {key: row for key, row in rows.items() if row[1]}


def _plain(name: str, value: Any) -> str | int:
    if isinstance(value, datetime):
        per_s = 1 if name == "minute" else 1000
        return round(value.timestamp() * per_s)
    return value if isinstance(value, (str, int)) else str(value)


def _whole(value: int | Decimal) -> int:
    return int(value.scaleb(9)) if isinstance(value, Decimal) else value


class Difference(NamedTuple):
    """A row that differs; `kind`: `differs`, `missing` (from the tables) or `extra` (not derivable from the log)."""

    table: str
    kind: str
    key: Key
    counted: Row | None
    stored: Row | None

    @property
    def words(self) -> str:
        """Describe what is wrong with which row."""
        names = dict(zip(KEYS[self.table], self.key, strict=True))
        minute = datetime.fromtimestamp(int(names.pop("minute")), UTC).strftime("%Y-%m-%d %H:%M UTC")
        row = f"{self.table} minute {minute} " + " ".join(
            f"{n}={v}" for n, v in names.items() if v not in ("", 0)
        )
        if self.counted is None:
            return f"{row}: {_said(self.table, self.stored)} is stored, the log says nothing of it"
        if self.stored is None:
            return f"{row}: not stored, the log says {_said(self.table, self.counted)}"
        return f"{row}: {_said(self.table, self.stored)} is stored, the log says {_said(self.table, self.counted)}"


def _said(table: str, row: Row | None) -> str:
    values = dict(zip(VALUES[table], row or (), strict=True))
    return (
        f"quantity {values['quantity']} at ${values['price_usd'] / 1e9:.9f} = ${values['cost_usd'] / 1e9:.9f}"
        + (
            f", of it {values['lost_quantity']} lost = ${values['lost_cost_usd'] / 1e9:.9f}"
            if values.get("lost_quantity")
            else ""
        )
    )


class StoredLedger(NamedTuple):
    """The stored rows of a shard and span: those as of the recount, and the keys written since."""

    rows: Rows
    newer: frozenset[Key]


def compare(
    table: str, counted: Mapping[Key, Row], stored: StoredLedger, skip: frozenset[str]
) -> tuple[int, list[Difference]]:
    """How many rows agree, and those that do not; owners (jobs, nodes) in `skip` and newer rows are left out."""
    mine, theirs = nonzero(counted), nonzero(stored.rows)
    agree, found = 0, []
    for key in sorted(mine.keys() | theirs.keys(), key=str):
        if key in stored.newer or str(key[0]) in skip:
            continue
        counted_row, stored_row = mine.get(key), theirs.get(key)
        if counted_row == stored_row:
            agree += 1
        else:
            kind = "missing" if stored_row is None else "extra" if counted_row is None else "differs"
            found.append(Difference(table, kind, key, counted_row, stored_row))
    return agree, found
