"""Sums a shard's ledger per table and month, so that audits can compare them with the stored rows.

The sums follow what the shard booked row by row, so rows that a table lost or holds in an older version show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.tables import LEDGER_SUMS, SCHEMAS

#: Months (202611 is November 2026) and what was added to each: quantity, and cost in nano-dollars.
MonthSums = dict[int, tuple[int, int]]

_MINUTES_PER_DAY: Final = 1440
_WRAP: Final = 2**64


def month_sums(
    minute: NDArray[np.int32], quantity: NDArray[np.int64], cost_nano: NDArray[np.int64]
) -> MonthSums:
    """Return sums by month of minutes since 1970 (UTC); quantities of all units are added, modulo 2**64."""
    if not len(minute):
        return {}
    first, last = (_month_of(int(each)) for each in (minute.min(), minute.max()))
    if first == last:
        return {first: (int(quantity.sum()), int(cost_nano.sum()))}
    days, day = np.unique(minute // _MINUTES_PER_DAY, return_inverse=True)
    month = np.array([_month_of(int(each) * _MINUTES_PER_DAY) for each in days], np.int64)[day]
    return {
        int(each): (int(quantity[month == each].sum()), int(cost_nano[month == each].sum()))
        for each in np.unique(month)
    }


def _month_of(minute: int) -> int:
    months = int(np.datetime64(minute, "m").astype("datetime64[M]").astype(np.int64))
    return (1970 + months // 12) * 100 + months % 12 + 1


@dataclass
class LedgerSums:
    """All sums of a shard; `known`: whether they have been maintained since its first record."""

    known: bool = True
    _sums: dict[str, MonthSums] = field(default_factory=dict)  # by table
    _owed: set[tuple[str, int]] = field(default_factory=set)

    def add(self, table: str, sums: MonthSums) -> None:
        """Add what new rows change beyond those that they replace."""
        mine = self._sums.setdefault(table, {})
        for month, (quantity, cost_nano) in sums.items():
            had = mine.get(month, (0, 0))
            mine[month] = (_wrapped(had[0] + quantity), _wrapped(had[1] + cost_nano))
            self._owed.add((table, month))

    def of(self, table: str) -> Mapping[int, tuple[int, int]]:
        """Return the sums of a table by month."""
        return self._sums.get(table, {})

    def drain_changed(self, shard: int, version: int) -> dict[str, pa.Table]:
        """Return rows of `ledger_sums` for the months that changed since the last call."""
        owed, self._owed = sorted(self._owed), set()
        if not (owed and self.known):
            return {}
        columns: dict[str, list[object]] = {
            "table_name": [table for table, _ in owed],
            "month": [month for _, month in owed],
            "quantity": [self._sums[table][month][0] for table, month in owed],
            "cost_nano": [self._sums[table][month][1] for table, month in owed],
            "shard": [shard] * len(owed),
            "version": [version] * len(owed),
        }
        return {LEDGER_SUMS: pa.Table.from_pydict(columns, schema=SCHEMAS[LEDGER_SUMS])}

    def dump(self) -> dict[str, MonthSums] | None:
        """Return the state for a snapshot; None: unknown."""
        return self._sums if self.known else None

    def load(self, dumped: dict[str, MonthSums] | None) -> None:
        """Set the state: the inverse of `dump`. All sums are written anew, as rows may have been corrected since."""
        self.known = dumped is not None
        self._sums = dumped or {}
        self._owed = {(table, month) for table, months in self._sums.items() for month in months}


def _wrapped(value: int) -> int:
    return (value + _WRAP // 2) % _WRAP - _WRAP // 2
