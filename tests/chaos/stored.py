"""What the store holds at the end, in the oracle's words, and what the shards' own books say.

It must not compute: quantities and costs are taken as they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any

from schemas.tables import (
    ATTEMPTS,
    BOOKS,
    DEAD_LETTER_COUNTS,
    DEAD_LETTERS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_MINUTES,
)
from sinks.clickhouse import ClickHouseStore
from sinks.port import Condition
from streams.pipeline.settings import ShardSettings
from streams.pipeline.shard import Shard
from streams.pricing.book import PriceBook
from tests.oracle.model import (
    AttemptRow,
    Counts,
    JobRow,
    LedgerKey,
    LedgerRow,
    NodeKey,
    NodeRow,
    Tables,
    UsageRow,
)

Row = dict[str, Any]
Place = tuple[str, int]  # topic, partition
DeadKey = tuple[str, int, int]  # topic, partition, offset
NOT_EMPTY = (Condition("quantity", "!=", 0),)


def stored_tables(store: ClickHouseStore) -> Tables:
    """The current rows; without dead letters and counts."""
    found = Tables()
    for row in _rows(store, JOB_MINUTES, NOT_EMPTY):
        key = LedgerKey(
            _minute(row), row["job_id"], row["attempt"], row["node"], row["component"], row["phase"],
            row["sku"], _ms(row["price_effective"]), row["unit"],
        )  # fmt: skip
        found.ledger[key] = LedgerRow(
            row["quantity"], _nano(row["cost_usd"]), row["lost_quantity"], _nano(row["lost_cost_usd"])
        )
    for row in _rows(store, JOB_USAGE_MINUTES):
        where = (_minute(row), row["job_id"], row["attempt"])
        so_far = found.usage.get(where, UsageRow(0, 0))
        found.usage[where] = UsageRow(
            so_far.sampled_gpu_s + row["sampled_gpu_s"],
            so_far.productive_gpu_ms + row["productive_gpu_ms"],
        )
    for row in _rows(store, NODE_MINUTES, NOT_EMPTY):
        node = NodeKey(_minute(row), row["node"], row["sku"], _ms(row["price_effective"]), row["unit"])
        found.nodes[node] = NodeRow(row["quantity"], _nano(row["cost_usd"]))
    for row in _rows(store, JOBS):
        found.jobs[row["job_id"]] = JobRow(
            row["state"], row["attempts"], row["owner"] or None, row["team"] or None, row["project"] or None,
            row["experiment"] or None, tuple(sorted(row["labels"])), row["wall_clock_ms"],
        )  # fmt: skip
    for row in _rows(store, ATTEMPTS):
        found.attempts[row["job_id"], row["attempt"]] = AttemptRow(row["state"], row["wall_clock_ms"])
    return found


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
        outcomes = ("applied", "duplicate", "too_late", "dead_lettered")
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


def _rows(store: ClickHouseStore, table: str, where: tuple[Condition, ...] = ()) -> Iterator[Row]:
    for batch in store.select(table, where).to_batches(max_chunksize=10_000):
        yield from batch.to_pylist()


def _minute(row: Row) -> int:
    return int(row["minute"].timestamp()) // 60


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _nano(usd: Decimal) -> int:
    return int(usd.scaleb(9))
