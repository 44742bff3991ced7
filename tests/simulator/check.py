"""The tables of a run in the oracle's words, and where they differ from what must stand there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from schemas.tables import DEAD_LETTERS, JOB_MINUTES, NODE_MINUTES
from streams.engine.shard.books import Books
from streams.engine.shard.shard import Shard
from tests.oracle.compute import compute
from tests.oracle.model import Counts, Tables
from tests.property.compare import differences
from tests.simulator.log import Log
from tests.simulator.script import Script
from tests.simulator.store import Shelf
from tests.stored_rows import tables_of

_SUMMED = ("minute", "shard", "quantity", "cost_usd")


def stored_tables(shelf: Shelf, log: Log, books: Iterable[Books]) -> Tables:
    """What the store holds."""

    def select(table: str, names: Iterable[str]) -> Iterator[tuple[Any, ...]]:
        for key, (_, batch, place) in shelf.tables[table].items():
            yield (key, *(batch.column(name)[place] for name in names))

    found = tables_of(select)
    positions = {place: index for index, place in enumerate(log.places)}
    letters = select(DEAD_LETTERS, ("reason",))
    found.dead = sorted((positions[key], _kind(reason)) for key, reason in letters)
    found.counts = _counts(books)
    return found


def sums_differences(shelf: Shelf, shards: Iterable[Shard]) -> list[str]:
    """Where the sums that shards keep are not those of their rows."""
    want: dict[tuple[str, int, int], list[int]] = {}
    for table in (JOB_MINUTES, NODE_MINUTES):
        for _, batch, place in shelf.tables[table].values():
            minute, shard, quantity, cost = (batch.column(name)[place] for name in _SUMMED)
            day = datetime.fromtimestamp(minute, UTC)
            sums = want.setdefault((table, shard, day.year * 100 + day.month), [0, 0])
            sums[0] += quantity
            sums[1] += cost
    found = []
    for shard in shards:
        for table in (JOB_MINUTES, NODE_MINUTES):
            got = {month: tuple(sums) for month, sums in shard.sums.of(table).items() if any(sums)}
            rows = {
                key[2]: tuple(map(_wrapped, sums))
                for key, sums in want.items()
                if key[:2] == (table, shard.number) and any(sums)
            }
            if got != rows:
                found.append(f"sums of `{table}`, shard {shard.number}: booked {got}, rows {rows}")
    return found


def _wrapped(value: int) -> int:
    """As a column of 64 bits holds it: costs at the cap add up to more."""
    return (value + 2**63) % 2**64 - 2**63


def _kind(reason: str) -> str:
    return "too_late" if reason == "too_late" else "invalid"


def _counts(books: Iterable[Books]) -> Counts:
    total = Books()
    for each in books:
        total = total.plus(each)
    assert total.balanced, total
    return Counts(total.applied, total.duplicate, total.too_late, total.dead_lettered, total.unattributed)


def expected_tables(script: Script, log: Log, as_of_ms: int) -> Tables:
    """What the oracle says of the log."""
    tables = compute(
        log.lines,
        as_of_ms=as_of_ms,
        job_horizon_ms=script.settings.job_horizon_ms,
        late_horizon_s=script.settings.late_horizon_ms // 1000,
    )
    # Prices and controls belong to no shard, whose books are compared.
    reference = [line for line in log.lines if line.topic in ("prices", "controls")]
    refused = sum(not line.valid for line in reference)
    tables.counts.dead_lettered -= refused
    tables.counts.applied -= len(reference) - refused
    return tables


def table_differences(got: Tables, want: Tables) -> list[str]:
    """One sentence per row that differs."""
    found = differences(got, want)
    missing, surplus = set(want.dead) - set(got.dead), set(got.dead) - set(want.dead)
    found += [f"dead letter {one}: missing" for one in sorted(missing)]
    found += [f"dead letter {one}: too many" for one in sorted(surplus)]
    return found
