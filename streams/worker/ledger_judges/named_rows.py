"""Reads the rows of many names: a parameter of a statement has a size at most."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from streams.worker.ledger_judges.reader import SqlStore

#: Names of one parameter: ClickHouse refuses one of more than 128 KiB.
_NAMES_AT_ONCE: Final = 400


def named_rows(
    store: SqlStore, sql: str, parameter: str, names: Sequence[str], **bound: object
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a statement for all these names, which are its parameter of that name."""
    for begin in range(0, len(names), _NAMES_AT_ONCE):
        more = {**bound, parameter: names[begin : begin + _NAMES_AT_ONCE]}
        yield from rows_of(store.query(sql, more))
