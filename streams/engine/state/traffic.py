"""Network and storage amounts of an attempt, stored as received so that any minute can be derived again.

Duplicates are removed before; prices and lost work are handed in.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Mapping
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from schemas.durations import BEGINNING_MS, MINUTE_MS, NEVER_MS
from schemas.events import FLOW_FIELDS, TrafficEvent
from streams.engine.kernels.spread import spread
from streams.engine.pricing.book import PriceBook, Steps
from streams.engine.pricing.context import Context, Payer, traffic_context
from streams.engine.pricing.kinds import KIND_OF_UNIT, Kind, unpriced
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Flow, Line
from streams.engine.timeline.spread_few import IntervalAmount, spread_few

#: Up to this many amounts and minutes, plain Python is faster than building arrays.
FEW = 8
_FEW_MINUTES = 64
_FEW_AMOUNTS = 64

#: minute -> line -> (quantity, lost quantity)
MinuteRows = dict[int, dict[Line, tuple[int, int]]]
#: Match and flow fields as sorted items.
Named = tuple[tuple[str, str], ...]
#: (topic, unit, fields): what determines the price and the rows of an amount.
Basis = tuple[str, str, Named]


class Traffic:
    """Columns of amounts: how much, from when, for how long, on which basis."""

    __slots__ = (
        "_amount",
        "_bases",
        "_basis",
        "_basis_index",
        "_contexts",
        "_interval_ms",
        "_start_ms",
        "first_ms",
        "last_ms",
    )

    def __init__(self) -> None:
        self._amount = array("q")
        self._start_ms = array("q")
        self._interval_ms = array("q")
        self._basis = array("i")
        self._bases: list[Basis] = []
        self._basis_index: dict[Basis, int] = {}
        # The payer and the price contexts of the bases as of the last call.
        self._contexts: tuple[tuple[str | None, str | None], list[Context]] = ((None, None), [])
        self.first_ms = NEVER_MS
        self.last_ms = BEGINNING_MS

    def __len__(self) -> int:
        return len(self._amount)

    @property
    def bases(self) -> list[Basis]:
        """All bases that amounts were booked on."""
        return self._bases

    def add(self, event: TrafficEvent) -> tuple[int, int]:
        """Store an event's amounts; return the minutes [first, last + 1) that they touch."""
        match = tuple(sorted(event.match.items()))
        start_ms = event.time_ms - event.interval_ms
        for unit, amount in event.amounts:
            self._append(amount, start_ms, event.interval_ms, (event.topic, str(unit), match))
        return start_ms // MINUTE_MS, event.time_ms // MINUTE_MS + 1

    def _append(self, amount: int, start_ms: int, interval_ms: int, basis: Basis) -> None:
        index = self._basis_index.get(basis)
        if index is None:
            index = self._basis_index[basis] = len(self._bases)
            self._bases.append(basis)
        self._amount.append(amount)
        self._start_ms.append(start_ms)
        self._interval_ms.append(interval_ms)
        self._basis.append(index)
        self.first_ms = min(self.first_ms, start_ms)
        self.last_ms = max(self.last_ms, start_ms + interval_ms)

    def all_minutes(self) -> tuple[int, int]:
        """The minutes [first, last + 1) that any amount touches; (0, 0) without amounts."""
        return (self.first_ms // MINUTE_MS, self.last_ms // MINUTE_MS + 1) if len(self) else (0, 0)

    def rows(
        self,
        minutes: Iterable[tuple[int, int]],
        book: PriceBook,
        payer: Payer,
        lost: tuple[Span, ...],
    ) -> MinuteRows:
        """The rows of the minutes in the disjoint ranges [lo, hi) in which any amount accrues."""
        contexts = self._all_contexts(payer.team, payer.project)
        rows: MinuteRows = {}
        for lo, hi in minutes:
            self._rows_between(lo, hi, book, contexts, lost, rows)
        return rows

    def _all_contexts(self, team: str | None, project: str | None) -> list[Context]:
        """The price context of each basis for this payer."""
        payer, known = self._contexts
        if payer != (team, project) or len(known) != len(self._bases):
            known = [traffic_context(dict(match), team, project) for _, _, match in self._bases]
            self._contexts = ((team, project), known)
        return known

    def _steps(
        self, basis: int, book: PriceBook, contexts: list[Context], from_ms: int, until_ms: int
    ) -> list[tuple[int, Line]]:
        topic, unit, named = self._bases[basis]
        flow = flow_of(named)
        kind = Kind(KIND_OF_UNIT[unit])
        steps: Steps = book.steps(contexts[basis], topic, kind, from_ms, until_ms)
        return [(begin_ms, Line("", "", price or unpriced(topic, kind), flow)) for begin_ms, price in steps]

    def _rows_between(
        self,
        lo: int,
        hi: int,
        book: PriceBook,
        contexts: list[Context],
        lost: tuple[Span, ...],
        rows: MinuteRows,
    ) -> None:
        if len(self) <= _FEW_AMOUNTS and hi - lo <= _FEW_MINUTES:
            few = self._few_between(lo * MINUTE_MS, hi * MINUTE_MS)
            if len(few) <= FEW:
                self._add_few(few, lo, hi, book, contexts, lost, rows)
                return
        start_ms = _column(self._start_ms)
        interval_ms = _column(self._interval_ms)
        chosen = np.flatnonzero((start_ms < hi * MINUTE_MS) & (start_ms + interval_ms >= lo * MINUTE_MS))
        if not chosen.size:
            return
        if chosen.size <= FEW and hi - lo <= _FEW_MINUTES:
            self._add_few(chosen.tolist(), lo, hi, book, contexts, lost, rows)
            return
        basis = np.frombuffer(self._basis, np.int32)[chosen]
        begin_ms = int(start_ms[chosen].min())
        end_ms = int((start_ms[chosen] + interval_ms[chosen]).max()) + 1
        steps = {k: self._steps(k, book, contexts, begin_ms, end_ms) for k in set(basis.tolist())}
        lines: dict[Line, int] = {}
        cut_ptr = np.zeros(chosen.size + 1, np.int64)
        cut_ms: list[int] = []
        cut_line: list[int] = []
        for position, index in enumerate(basis.tolist()):
            for from_ms, line in steps[index]:
                cut_ms.append(from_ms)
                cut_line.append(lines.setdefault(line, len(lines)))
            cut_ptr[position + 1] = len(cut_ms)
        linear = np.array([unit == "mib_ms" for _, unit, _ in self._bases], np.uint8)[basis]
        found = spread(
            linear,
            _column(self._amount)[chosen],
            start_ms[chosen],
            interval_ms[chosen],
            cut_ptr,
            np.array(cut_ms, np.int64),
            np.array(cut_line, np.int32),
            lo,
            hi,
            np.array([span[0] for span in lost], np.int64),
            np.array([span[1] for span in lost], np.int64),
        )
        line_of = list(lines)
        for place, minute, quantity, lost_quantity in zip(
            *(column.tolist() for column in found), strict=True
        ):
            rows.setdefault(minute, {})[line_of[place]] = (quantity, lost_quantity)

    def _few_between(self, from_ms: int, until_ms: int) -> list[int]:
        """The amounts that a span touches."""
        columns = zip(self._start_ms, self._interval_ms, strict=True)
        return [
            index
            for index, (start_ms, interval_ms) in enumerate(columns)
            if start_ms < until_ms and start_ms + interval_ms >= from_ms
        ]

    def _add_few(
        self,
        chosen: list[int],
        lo: int,
        hi: int,
        book: PriceBook,
        contexts: list[Context],
        lost: tuple[Span, ...],
        rows: MinuteRows,
    ) -> None:
        """Add the rows of a few amounts in a few minutes."""
        if not chosen:
            return
        begin_ms = min(self._start_ms[index] for index in chosen)
        end_ms = max(self._start_ms[index] + self._interval_ms[index] for index in chosen) + 1
        bases = {self._basis[index] for index in chosen}
        steps = {k: self._steps(k, book, contexts, begin_ms, end_ms) for k in bases}
        amounts = [self._at(index, steps) for index in chosen]
        for (line, minute), quantities in spread_few(amounts, lo, hi, lost).items():
            rows.setdefault(minute, {})[line] = quantities

    def _at(self, index: int, steps: Mapping[int, list[tuple[int, Line]]]) -> IntervalAmount:
        basis = self._basis[index]
        linear = self._bases[basis][1] == "mib_ms"
        return IntervalAmount(
            linear, self._amount[index], self._start_ms[index], self._interval_ms[index], steps[basis]
        )

    def dump(self, since: int = 0) -> tuple[bytes, bytes, bytes, bytes, list[Basis]]:
        """Columns as little-endian bytes (int64, int64, int64, int32) from amount `since` on, and all bases."""
        if since >= len(self):
            return b"", b"", b"", b"", list(self._bases)
        columns = (self._amount, self._start_ms, self._interval_ms, self._basis)
        amount, start_ms, interval_ms, basis = (_little_endian(column[since:]) for column in columns)
        return amount, start_ms, interval_ms, basis, list(self._bases)

    @classmethod
    def load(cls, dumped: tuple[bytes, bytes, bytes, bytes, list[Basis]]) -> Traffic:
        """Build from a dump: the inverse of `dump`."""
        traffic = cls()
        traffic.extend(dumped)
        return traffic

    def extend(self, dumped: tuple[bytes, bytes, bytes, bytes, list[Basis]]) -> None:
        """Append a dump that continues these amounts."""
        if not dumped[0]:  # most attempts have no amounts
            return
        amount, start_ms, interval_ms = (np.frombuffer(column, "<i8").tolist() for column in dumped[:3])
        bases = dumped[4]
        for row in zip(amount, start_ms, interval_ms, np.frombuffer(dumped[3], "<i4").tolist(), strict=True):
            self._append(row[0], row[1], row[2], bases[row[3]])


@lru_cache(maxsize=16384)
def flow_of(named: Named) -> Flow:
    """The flow fields of an amount as its rows have them."""
    fields = dict(named)
    return tuple(fields.get(name, "") for name in FLOW_FIELDS)


def _little_endian(values: array[int]) -> bytes:
    if sys.byteorder == "little":
        return values.tobytes()
    return np.array(values).astype(f"<{values.typecode}").tobytes()


def _column(values: array[int]) -> NDArray[np.int64]:
    """A view: the array cannot grow while it is in use."""
    return np.frombuffer(values, np.int64)
