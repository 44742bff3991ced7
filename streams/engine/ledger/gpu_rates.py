"""The cost of a sampled GPU in each second of a minute, by its price fields and payer.

It uses the newest price book given; it must not know a job.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.durations import MINUTE_MS
from streams.engine.kernels.arrays import F64
from streams.engine.ledger.sampled_minutes import MILLI_MS_PER_GPU_S
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Part, Payer, time_parts, usage_context
from streams.engine.pricing.history import PriceHistory
from streams.engine.pricing.kinds import Kind
from streams.engine.state.attempt import Winner
from streams.engine.timeline.lines import price_pieces

#: The row of a minute in which GPU-time has no price.
UNPRICED: Final = -1
_ROOM: Final = 8
_ROWS_AT_MOST: Final = 20_000


def per_gpu_second(book: PriceBook, parts: Iterable[Part], start_ms: int) -> tuple[F64, NDArray[np.bool_]]:
    """Return the cost of a sampled GPU in each second of the minute ([60] float64, nano-dollars), and where it is unpriced."""
    cost_nano = np.zeros(60, np.float64)
    unpriced = np.zeros(60, np.bool_)
    second_ms = start_ms + 1000 * np.arange(60)
    for component, context in parts:
        steps = book.steps(context, component, Kind.GPU_TIME, start_ms, start_ms + MINUTE_MS)
        pieces = price_pieces(steps, start_ms, start_ms + MINUTE_MS, component, Kind.GPU_TIME)
        for from_ms, until_ms, price in pieces:
            # A second in which the price changes costs its share of both.
            inside_ms = np.minimum(until_ms, second_ms + 1000) - np.maximum(from_ms, second_ms)
            share = np.maximum(inside_ms, 0) / 1000
            cost_nano += share * (MILLI_MS_PER_GPU_S * price.usd_nano / price.divisor)
            unpriced |= (share > 0) & (not price.sku and component == "gpu")
    return cost_nano, unpriced


class GpuRates:
    """Rows of a table; a row is valid until all are dropped, when prices have filled the table."""

    def __init__(self, book: PriceBook) -> None:
        self.book = book  # may be replaced by a newer one, between two updates
        self.table: F64 = np.zeros((_ROOM, 60))  #: [row, second of the minute] nano-dollars of a GPU
        self._used = 0
        self._of: dict[tuple[tuple[str, ...], Payer], GpuRate] = {}

    @property
    def is_full(self) -> bool:
        """Return whether the table should be rebuilt: prices come and go."""
        return self._used > _ROWS_AT_MOST

    def of(self, sample: Winner, payer: Payer) -> GpuRate:
        """Return the rate of samples with the price fields of this one."""
        found = self._of.get((sample.fields, payer))
        if found is None:
            context = usage_context(sample.price_fields, payer.team, payer.project)
            parts = time_parts(Kind.GPU_TIME, context, payer.labels)
            found = self._of[sample.fields, payer] = GpuRate(self, parts)
        return found

    def add(self, cost_nano: F64) -> int:
        """Add a row, and return its number."""
        if self._used == len(self.table):
            self.table = np.concatenate((self.table, np.zeros_like(self.table)))
        self.table[self._used] = cost_nano
        self._used += 1
        return self._used - 1


class GpuRate:
    """The row of each minute."""

    __slots__ = ("_book", "_from_ms", "_parts", "_rates", "_row", "_rows", "_sources", "_until_ms")

    def __init__(self, rates: GpuRates, parts: tuple[Part, ...]) -> None:
        self._rates, self._parts = rates, parts
        self._book: PriceBook | None = None
        self._sources: list[tuple[PriceHistory, ...]] = []
        self._forget()

    def _forget(self) -> None:
        # By the first minute looked up between two price changes, and by minutes with a change.
        self._rows: dict[int, int] = {}
        self._from_ms = self._until_ms = self._row = 0  # where the last row found applies

    def is_priced(self, first: int, last: int) -> bool:
        """Return whether GPU-time has a price in all of these minutes."""
        begin_ms, end_ms = first * MINUTE_MS, (last + 1) * MINUTE_MS
        component, context = self._parts[0]
        steps = self._rates.book.steps(context, component, Kind.GPU_TIME, begin_ms, end_ms)
        pieces = price_pieces(steps, begin_ms, end_ms, component, Kind.GPU_TIME)
        return all(price.sku for _, _, price in pieces)

    def row(self, minute: int) -> int:
        """Return the row of the table for a minute, or UNPRICED."""
        start_ms = minute * MINUTE_MS
        if self._book is not self._rates.book:
            self._set_book(self._rates.book)
        if self._from_ms <= start_ms and start_ms + MINUTE_MS <= self._until_ms:
            return self._row
        stretches = [
            self._rates.book.stretch(context, component, Kind.GPU_TIME, start_ms)
            for component, context in self._parts
        ]
        from_ms = max(since_ms for since_ms, _, _ in stretches)
        until_ms = min(to_ms for _, to_ms, _ in stretches)
        if until_ms < start_ms + MINUTE_MS:  # the price changes in this minute, which has a row of its own
            return self._new_rate(start_ms, start_ms)
        self._row = self._new_rate(from_ms, start_ms)
        self._from_ms, self._until_ms = from_ms, until_ms
        return self._row

    def _set_book(self, book: PriceBook) -> None:
        """Adopt a newer book; cached rows stay valid if nothing that determines them changed."""
        sources = [book.sources(context, component, Kind.GPU_TIME) for component, context in self._parts]
        if sources != self._sources:
            self._forget()
        self._book, self._sources = book, sources

    def _new_rate(self, key_ms: int, start_ms: int) -> int:
        known = self._rows.get(key_ms)
        if known is None:
            cost_nano, unpriced = per_gpu_second(self._rates.book, self._parts, start_ms)
            known = self._rows[key_ms] = UNPRICED if unpriced.any() else self._rates.add(cost_nano)
        return known
