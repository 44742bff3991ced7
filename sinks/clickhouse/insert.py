"""Splits a table of rows into inserts that ClickHouse accepts: limited months and rows at a time.

The same rows are always split in the same way.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from schemas.tables import MONTHLY

# ClickHouse refuses an insert into more than 100 partitions.
MOST_MONTHS: Final = 90
MOST_ROWS: Final = 1_000_000
#: Settings of each insert. Readers merge rows of one key; doing it here would take a quarter of the insert's time.
SETTINGS: Final = {"insert_deduplicate": 1, "optimize_on_insert": 0}


class Piece(NamedTuple):
    """One insert; its token distinguishes a retry of it from another insert."""

    token: str
    rows: pa.Table


def pieces(table: str, rows: pa.Table, token: str) -> Iterator[Piece]:
    """Yield the rows in inserts of at most MOST_MONTHS months and MOST_ROWS rows; none for no rows."""
    number = 0
    for part in _by_months(rows, MONTHLY[table]) if table in MONTHLY else [rows]:
        for start in range(0, part.num_rows, MOST_ROWS):
            yield Piece(f"{token}:{number}", part.slice(start, MOST_ROWS))
            number += 1


def _by_months(rows: pa.Table, column: str) -> Iterator[pa.Table]:
    instants = rows[column]
    ends = pc.min_max(instants)
    if not _far_apart(ends["min"], ends["max"]):
        yield rows  # the usual case: no need to compute each row's month
        return
    months = pc.add(pc.multiply(pc.year(instants), 12), pc.month(instants))
    distinct = sorted(pc.unique(months).to_pylist())
    if len(distinct) <= MOST_MONTHS:
        yield rows
        return
    for first in range(0, len(distinct), MOST_MONTHS):
        wanted = pa.array(distinct[first : first + MOST_MONTHS], months.type)
        yield rows.filter(pc.is_in(months, wanted))


def _far_apart(first: pa.TimestampScalar, last: pa.TimestampScalar) -> bool:
    """Whether there may be more than MOST_MONTHS months between the instants."""
    begin, end = first.as_py(), last.as_py()
    return begin is not None and bool((end.year - begin.year) * 12 + end.month - begin.month >= MOST_MONTHS)
