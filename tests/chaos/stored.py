"""What the store holds at the end, in the oracle's words, and what the shards' own books say.

Quantities and costs are taken as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from schemas.tables import BOOKS, DEAD_LETTER_COUNTS, DEAD_LETTERS, JOB_MINUTES, KEYS, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from tests.oracle.model import Counts, Tables
from tests.stored_rows import Rows, tables_of

Row = dict[str, Any]
Place = tuple[str, int]  # topic, partition
DeadKey = tuple[str, int, int]  # topic, partition, offset
NOT_EMPTY = (Condition("quantity", "!=", 0),)


def stored_tables(store: ClickHouseStore) -> Tables:
    """The current rows; without dead letters and counts."""

    def select(table: str, names: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        stored = store.select(table, NOT_EMPTY if "quantity" in names else (), (*KEYS[table], *names))
        for batch in stored.to_batches(max_chunksize=10_000):
            rows = Rows(pa.Table.from_batches([batch]))
            yield from zip(rows.keys(table), *(rows.column(name) for name in names), strict=True)

    return tables_of(select)


def stored_dead(store: ClickHouseStore) -> dict[DeadKey, str]:
    """Dead letters by their place in the log: `too_late`, or `invalid` for every other reason."""
    return {
        (row["topic"], row["partition"], row["offset"]): "too_late"
        if row["reason"] == "too_late"
        else "invalid"
        for row in _rows(store, DEAD_LETTERS)
    }


def stored_books(store: ClickHouseStore) -> dict[Place, int]:
    """Records in, by place, as the stored books have them; they must balance."""
    found: dict[Place, int] = {}
    for row in _rows(store, BOOKS):
        outcomes = ("applied", "unattributed", "duplicate", "too_late", "dead_lettered")
        assert row["records_in"] == sum(row[name] for name in outcomes), row
        found[row["topic"], row["partition"]] = row["records_in"]
    return found


def stored_refused(store: ClickHouseStore) -> int:
    """Dead letters of the shards' topics, as they were counted."""
    return sum(row["records"] for row in _rows(store, DEAD_LETTER_COUNTS))


def stored_counts(store: ClickHouseStore, partitions: Iterable[int]) -> Counts:
    """The books of all shards, as their last snapshots have them."""
    total = Counts()
    for number in partitions:
        shard = Shard.restore(number, ShardSettings(), PriceBook.empty(), store.snapshots.load(number).blobs)
        books = shard.books
        total = Counts(
            total.applied + books.applied,
            total.duplicate + books.duplicate,
            total.too_late + books.too_late,
            total.dead_lettered + books.dead_lettered,
            total.unattributed + books.unattributed,
        )
    return total


def money(store: ClickHouseStore) -> list[tuple[int, int, int]]:
    """Rows of both ledgers, the sums of their quantities and of their nano-dollars: enough to see whether they move."""
    return [_money(store, table) for table in (JOB_MINUTES, NODE_MINUTES)]


def _money(store: ClickHouseStore, table: str) -> tuple[int, int, int]:
    row = store.query(
        "SELECT toUInt64(count()) AS n, toString(sum(toInt128(quantity))) AS q,"
        f" toString(sum(cost_usd) * 1000000000) AS c FROM {table} FINAL WHERE quantity != 0"
    ).to_pylist()[0]
    return int(row["n"]), int(row["q"]), int(Decimal(row["c"]))


def money_of(tables: Tables) -> list[tuple[int, int, int]]:
    """The same of the oracle's ledgers."""
    return [
        (len(rows), sum(row.quantity for row in rows), sum(row.cost_nano for row in rows))
        for rows in (tables.ledger.values(), tables.nodes.values())
    ]


def _rows(store: ClickHouseStore, table: str) -> Iterator[Row]:
    for batch in store.select(table).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()
