"""Takes a backfill back: deletes everything that its shard stored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from schemas.tables import ARCHIVE, SCHEMAS, SNAPSHOTS
from sinks.port import Store
from sinks.rows import Condition
from streams.backfill.runs import BackfillRun, Runs

#: What a resumed backfill would rely on goes first: one that was taken back halfway begins anew.
_FIRST: Final = (SNAPSHOTS, ARCHIVE)


def undo(store: Store, number: int, advance: Callable[[int], None] = lambda _tables: None) -> BackfillRun:
    """Delete the rows of a backfill, by the time it returns; calling it again after a crash completes it.

    Raises:
        WrongUseError: There is no such backfill.
        SinkError: The store cannot be written.
    """
    runs = Runs(store.meta)
    run = runs.to_undo(number)
    run.done = False
    runs.save()
    owned = {table: _column(schema.names) for table, schema in SCHEMAS.items()}
    for table in (*_FIRST, *(table for table in owned if table not in _FIRST)):
        if (column := owned[table]) is not None:
            store.delete(table, [Condition(column, "=", run.shard)])
        advance(1)
    run.undone = True
    runs.save()
    return run


def _column(names: list[str]) -> str | None:
    """The column that has the shard's number, None for a table without."""
    return next((name for name in ("shard", "partition") if name in names), None)
