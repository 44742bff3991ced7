"""Raw values of the rows of a simulated store, for those who answer and those who compare."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Any

from tests.simulator.store import Shelf

Row = dict[str, Any]
Bound = Mapping[str, Any]


def read(shelf: Shelf, table: str, *names: str) -> Iterator[tuple[Any, ...]]:
    """Values of each current row, instants in ms or s as the table has them, money in nano-dollars."""
    last, columns = None, list[list[Any]]()
    for _, batch, place in shelf.tables[table].values():
        if batch is not last:  # rows of one insert mostly follow each other
            last, columns = batch, [batch.column(name) for name in names]
        yield tuple([column[place] for column in columns])


def usd(nano: int) -> Decimal:
    """Nano-dollars as dollars."""
    return Decimal(nano).scaleb(-9)
