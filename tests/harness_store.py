"""A store in a dict, with ReplacingMergeTree's rule: the greatest version of a key stands.

A row is looked at where it is asked for: most are replaced before anybody does.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPT_GPUS,
    ATTEMPTS,
    BOOKS,
    BURN_RATES,
    DEAD_LETTER_COUNTS,
    DEAD_LETTER_REPLAYS,
    DEAD_LETTERS,
    JOB_CHECKPOINTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    LEDGER_SUMS,
    NODE_HOURS,
    NODE_MINUTES,
    UNATTRIBUTED_MINUTES,
)
from tests.stored_rows import Rows

TABLES = (
    JOB_MINUTES,
    JOB_HOURS,
    JOB_USAGE_MINUTES,
    UNATTRIBUTED_MINUTES,
    JOBS,
    ATTEMPTS,
    JOB_CHECKPOINTS,
    ATTEMPT_GPUS,
    NODE_HOURS,
    NODE_MINUTES,
    DEAD_LETTERS,
    ARCHIVE,
    BURN_RATES,
    ALERTS,
    BOOKS,
    DEAD_LETTER_COUNTS,
    DEAD_LETTER_REPLAYS,
    LEDGER_SUMS,
)


class Snapshot(NamedTuple):
    """One stored snapshot; parent 0 is a base.  A restore begins at the root, 0: at the base."""

    version: int
    parent: int
    blob: bytes
    root: int = 0


def chain_of(snapshots: Sequence[Snapshot]) -> list[Snapshot]:
    """What a restore of the last one needs."""
    if not snapshots:
        return []
    bases = [one.version for one in snapshots if one.parent == 0]
    root = snapshots[-1].root or bases[-1]
    return [one for one in snapshots if one.version >= root]


class Row(Mapping[str, Any]):
    """One row, by column; instants and money as Arrow has them."""

    __slots__ = ("_batch", "_place", "version")

    def __init__(self, batch: Rows, place: int, version: int) -> None:
        self._batch = batch
        self._place = place
        self.version = version

    def __getitem__(self, name: str) -> Any:
        return self._batch.values(name)[self._place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._batch.rows.schema.names)

    def __len__(self) -> int:
        return len(self._batch.rows.schema.names)

    def whole(self, name: str) -> Any:
        """A column's value; an instant or money as an integer."""
        return self._batch.column(name)[self._place]


class DictStore:
    """Tables by key; the greatest version stands."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in TABLES}

    def insert(self, name: str, rows: pa.Table) -> None:
        """Keep the rows whose version is above the standing one's."""
        if not rows.num_rows:
            return
        table, batch = self.tables[name], Rows(rows)
        for place, (key, version) in enumerate(zip(batch.keys(name), batch.column("version"), strict=True)):
            standing = table.get(key)
            if standing is None or version > standing.version:
                table[key] = Row(batch, place, version)

    def select(self, name: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        """(key, the columns' values) of each current row; instants and money as integers."""
        for key, row in self.tables[name].items():
            yield (key, *(row.whole(column) for column in columns))

    def fetch(self, shard: int, wanted: Mapping[str, int]) -> dict[str, bytes]:
        """Archived states."""
        return {j: self.tables[ARCHIVE][shard, j, v]["blob"] for j, v in wanted.items()}
