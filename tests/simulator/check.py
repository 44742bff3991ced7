"""The tables of a run in the oracle's words, and where they differ from what must stand there.

It must not forgive anything.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from schemas.tables import DEAD_LETTERS
from streams.pipeline.books import Books
from tests.oracle.compute import compute
from tests.oracle.model import Counts, Tables
from tests.property.compare import differences
from tests.simulator.log import Log
from tests.simulator.script import Script
from tests.simulator.store import Shelf
from tests.stored_rows import tables_of


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


def _kind(reason: str) -> str:
    return "too_late" if reason == "too_late" else "invalid"


def _counts(books: Iterable[Books]) -> Counts:
    total = Books()
    for each in books:
        total = total.plus(each)
    assert total.balanced, total
    return Counts(total.applied, total.duplicate, total.too_late, total.dead_lettered)


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
