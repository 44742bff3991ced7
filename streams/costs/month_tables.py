"""Tables of what a month's allocation and closing store: apart from what reads a month, for a command that only asks loads no Arrow."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from schemas.bill_tables import (
    ALLOCATED_MONTHS,
    BILL_PARTS,
    CLOSED_CHARGES,
    CLOSED_MONTHS,
    JOB_BILLS,
    SCHEMAS,
)

__all__ = (
    "ALLOCATED_MONTHS",
    "BILL_PARTS",
    "CLOSED_CHARGES",
    "CLOSED_MONTHS",
    "JOB_BILLS",
    "parts_table",
    "rows_table",
)
_OF_ALLOCATION: Final = ("month", "allocation", "version")
_PART_COLUMNS: Final = tuple(name for name in SCHEMAS[BILL_PARTS].names if name not in _OF_ALLOCATION)


def rows_table(table: str, rows: Iterable[Mapping[str, Any]]) -> pa.Table:
    """Rows by the names of their columns."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMAS[table])


def parts_table(rows: Sequence[tuple[object, ...]], month_s: int, allocation: int) -> pa.Table:
    """Parts of lines, of one allocation: values in the order of the other columns of `bill_parts`."""
    columns = dict(zip(_PART_COLUMNS, map(list, zip(*rows, strict=True)), strict=True))
    of_all = {"month": month_s, "allocation": allocation, "version": allocation}
    same = {name: [value] * len(rows) for name, value in of_all.items()}
    return pa.Table.from_pydict({**same, **columns}, schema=SCHEMAS[BILL_PARTS])
