"""A store in a dict, with ReplacingMergeTree's rule: the greatest version of a key stands.

It must not compute; it hands out rows as they were given.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from schemas.tables import (
    ALERTS,
    ARCHIVE,
    ATTEMPTS,
    BOOKS,
    BURN_RATES,
    DEAD_LETTER_COUNTS,
    DEAD_LETTER_REPLAYS,
    DEAD_LETTERS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    KEYS,
    NODE_MINUTES,
)

Row = dict[str, Any]
TABLES = (
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    ATTEMPTS,
    NODE_MINUTES,
    DEAD_LETTERS,
    ARCHIVE,
    BURN_RATES,
    ALERTS,
    BOOKS,
    DEAD_LETTER_COUNTS,
    DEAD_LETTER_REPLAYS,
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


class DictStore:
    """Tables by key; the greatest version stands."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[tuple[Any, ...], Row]] = {name: {} for name in TABLES}

    def insert(self, name: str, rows: pa.Table) -> None:
        """Keep the rows whose version is above the standing one's."""
        table = self.tables[name]
        for row in rows.to_pylist():
            key = tuple(row[column] for column in KEYS[name])
            standing = table.get(key)
            if standing is None or row["version"] > standing["version"]:
                table[key] = row

    def fetch(self, shard: int, wanted: Mapping[str, int]) -> dict[str, bytes]:
        """Archived states."""
        return {j: self.tables[ARCHIVE][shard, j, v]["blob"] for j, v in wanted.items()}
