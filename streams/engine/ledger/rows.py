"""Collects the changed minutes of a shard's ledger lines and prices them all in one kernel call.

It derives money from quantities at the last moment; it does not decide what changed or when to write.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.columns import instants_of, money, same_text, seconds_of_minutes, table_of, take_text
from schemas.durations import MINUTE_MS
from schemas.events import FLOW_FIELDS
from schemas.tables import JOB_MINUTES, NODE_MINUTES, SCHEMAS
from streams.engine.kernels.bill import bill_rows
from streams.engine.kernels.minutes import diff_minutes
from streams.engine.ledger.sums import MonthSums, month_sums
from streams.engine.pricing.kinds import PriceRef
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Flow, Line, Lines

#: What a line's rows are for: written and added to the sums, written only, or added to the sums only.
_BOTH: Final = 0
_WRITTEN: Final = 1
_COUNTED: Final = 2


class PricedRows(NamedTuple):
    """Rows as arrays: int32 line and minute; int64 quantity, lost quantity, cost and lost cost in nano-dollars.

    `sums`: by month, what they add to the ledger's quantity and cost beyond the rows that they replace.
    """

    line: NDArray[np.int32]
    minute: NDArray[np.int32]
    quantity: NDArray[np.int64]
    lost: NDArray[np.int64]
    cost_nano: NDArray[np.int64]
    lost_cost_nano: NDArray[np.int64]
    capped: int
    sums: MonthSums


class LedgerRows:
    """Rows to be written: changed lines in closed form, and single rows."""

    def __init__(self) -> None:
        # By line: its owner (a job's attempt, or with attempt 0 a node), its node, its phase, price and flow.
        self._owner_ids: list[str] = []
        self._attempts = array("I")
        self._nodes: list[str] = []
        self._kind = array("i")
        self._kinds: dict[tuple[str, PriceRef, Flow], int] = {}  # there are few phases, prices and flows
        self._old: list[Sequence[Interval]] = []
        self._new: list[Sequence[Interval]] = []
        self._use = array("b")
        self._single: dict[tuple[str, int, Line, int], int] = {}
        self._row_line = array("i")
        self._row_minute = array("i")
        self._row_quantity = array("q")
        self._row_lost = array("q")
        self._row_before = array("q")
        self.sums: MonthSums = {}  # of the table that was built last
        self.estimate = 0  # approximate number of rows

    def add_lines(self, owner_id: str, attempt: int, old: Lines, new: Lines) -> None:
        """Write the minutes in which `new` differs from `old` (what the tables contain)."""
        replaced = {line.row_key: line for line in old.keys() - new.keys()}
        for line, after in new.items():
            before = old.get(line, [])
            republished = replaced.pop(line.row_key, None) if replaced else None
            if before != after:
                self._add(owner_id, attempt, line, before, after)
            if republished is not None:
                # Same quantities at another price: all rows are rewritten (above), and none remain where the line has
                # ended.
                self._add(owner_id, attempt, line, old[republished], after, _WRITTEN)
                self._add_line(owner_id, attempt, republished, old[republished], (), _COUNTED)
        for line in replaced.values():
            self._add(owner_id, attempt, line, old[line], [])

    def _add(
        self,
        owner_id: str,
        attempt: int,
        line: Line,
        before: list[Interval],
        after: list[Interval],
        use: int = _BOTH,
    ) -> None:
        if before == after:
            return
        self._add_line(owner_id, attempt, line, before, after, use)
        self.estimate += _changed_minutes(before, after)

    def prolong(
        self, owner_id: str, attempt: int, line: Line, intervals: list[Interval], until_ms: int
    ) -> None:
        """Write the minutes that change when the last interval of a booked line ends later; extend the interval."""
        start_ms, end_ms, rate, lost = last = intervals[-1]
        longer = intervals[-1] = (start_ms, until_ms, rate, lost)
        earlier: list[Interval] = []  # earlier intervals that reach into the first minute
        at, minute_ms = len(intervals) - 2, end_ms - end_ms % MINUTE_MS
        while at >= 0 and intervals[at][1] > minute_ms:
            earlier.insert(0, intervals[at])
            at -= 1
        self._add_line(owner_id, attempt, line, (*earlier, last), (*earlier, longer))
        self.estimate += (until_ms - end_ms) // MINUTE_MS + 2

    def _add_line(
        self,
        owner_id: str,
        attempt: int,
        line: Line,
        before: Sequence[Interval],
        after: Sequence[Interval],
        use: int = _BOTH,
    ) -> int:
        self._owner_ids.append(owner_id)
        self._attempts.append(attempt)
        node, phase, price, flow = line
        self._nodes.append(node)
        self._kind.append(self._kinds.setdefault((phase, price, flow), len(self._kinds)))
        self._old.append(before)
        self._new.append(after)
        self._use.append(use)
        return len(self._nodes) - 1

    def add_row(
        self, owner_id: str, attempt: int, line: Line, minute: int, quantity: int, lost: int, before: int = 0
    ) -> None:
        """Write one row; `before`: the quantity that it replaces."""
        self.add_at(self.place_of(owner_id, attempt, line), minute, quantity, lost, before)

    def retract(self, owner_id: str, attempt: int, line: Line, minute: int, before: int) -> None:
        """Count that a row is gone: another with its key and another price is written."""
        self.add_at(self.place_of(owner_id, attempt, line, _COUNTED), minute, 0, 0, before)

    def place_of(self, owner_id: str, attempt: int, line: Line, use: int = _BOTH) -> int:
        """The place of a line for `add_at`."""
        key = owner_id, attempt, line, use
        place = self._single.get(key)
        if place is None:
            place = self._single[key] = self._add_line(owner_id, attempt, line, (), (), use)
        return place

    def add_at(self, place: int, minute: int, quantity: int, lost: int, before: int = 0) -> None:
        """Write one row of the line that has this place; `before`: the quantity that it replaces."""
        self._row_line.append(place)
        self._row_minute.append(minute)
        self._row_quantity.append(quantity)
        self._row_lost.append(lost)
        self._row_before.append(before)
        self.estimate += 1

    def priced(self) -> PricedRows:
        """Return all rows with their cost, derived from the whole quantity of each."""
        old, new = flat_intervals(self._old), flat_intervals(self._new)
        line, minute, quantity, lost, before = diff_minutes(*old, *new)
        line = np.concatenate((line, np.array(self._row_line, np.int32)))
        minute = np.concatenate((minute, np.array(self._row_minute, np.int32)))
        quantity = np.concatenate((quantity, np.array(self._row_quantity, np.int64)))
        lost = np.concatenate((lost, np.array(self._row_lost, np.int64)))
        before = np.concatenate((before, np.array(self._row_before, np.int64)))
        kind = np.array(self._kind, np.int32)
        usd_nano = np.array([price.usd_nano for _, price, _ in self._kinds], np.int64)[kind]
        divisor = np.array([price.divisor for _, price, _ in self._kinds], np.int64)[kind]
        cost_nano, lost_cost_nano, capped = bill_rows(line, quantity, lost, usd_nano, divisor)
        before_nano, _, _ = bill_rows(line, before, np.zeros(len(line), np.int64), usd_nano, divisor)
        use = np.array(self._use, np.int8)[line]
        counted = use != _WRITTEN
        more = np.where(counted, quantity - before, 0), np.where(counted, cost_nano - before_nano, 0)
        sums = month_sums(minute, *more)
        rows = (line, minute, quantity, lost, cost_nano, lost_cost_nano)
        if (use == _COUNTED).any():
            line, minute, quantity, lost, cost_nano, lost_cost_nano = (each[use != _COUNTED] for each in rows)
        return PricedRows(line, minute, quantity, lost, cost_nano, lost_cost_nano, int(capped), sums)

    def job_minutes(self, shard: int, version: int) -> tuple[pa.Table, int]:
        """Return the rows as a `job_minutes` table, and how many costs were capped."""
        rows = self.priced()
        self.sums = rows.sums
        size = len(rows.line)
        kind = np.array(self._kind, np.int32)[rows.line]
        columns = {
            "minute": seconds_of_minutes(rows.minute),
            "job_id": take_text(self._owner_ids, rows.line),
            "attempt": pa.array(np.array(self._attempts, np.uint32)[rows.line]),
            "node": take_text(self._nodes, rows.line),
            "component": take_text([price.component for _, price, _ in self._kinds], kind),
            "phase": take_text([phase for phase, _, _ in self._kinds], kind),
            **self._price_columns(kind),
            **self._flow_columns(kind),
            "quantity": pa.array(rows.quantity),
            "cost_usd": money(rows.cost_nano),
            "lost_quantity": pa.array(rows.lost),
            "lost_cost_usd": money(rows.lost_cost_nano),
            "shard": pa.array(np.full(size, shard, np.uint16)),
            "version": pa.array(np.full(size, version, np.uint64)),
        }
        return table_of(SCHEMAS[JOB_MINUTES], columns), rows.capped

    def node_minutes(self, shard: int, version: int) -> tuple[pa.Table, int]:
        """Return the rows as a `node_minutes` table (the owners are nodes), and how many costs were capped."""
        rows = self.priced()
        self.sums = rows.sums
        size = len(rows.line)
        columns = {
            "minute": seconds_of_minutes(rows.minute),
            "node": take_text(self._owner_ids, rows.line),
            **self._price_columns(np.array(self._kind, np.int32)[rows.line]),
            "quantity": pa.array(rows.quantity),
            "cost_usd": money(rows.cost_nano),
            "shard": pa.array(np.full(size, shard, np.uint16)),
            "version": pa.array(np.full(size, version, np.uint64)),
        }
        return table_of(SCHEMAS[NODE_MINUTES], columns), rows.capped

    def _price_columns(self, kind: NDArray[np.int32]) -> dict[str, pa.Array]:
        prices = [price for _, price, _ in self._kinds]
        effective_ms = np.array([price.effective_ms for price in prices], np.int64)
        return {
            "sku": take_text([price.sku for price in prices], kind),
            "price_effective": instants_of(effective_ms[kind]),
            "price_usd": money(np.array([price.usd_nano for price in prices], np.int64)[kind]),
            "unit": take_text([price.unit for price in prices], kind),
        }

    def _flow_columns(self, kind: NDArray[np.int32]) -> dict[str, pa.Array]:
        if not any(flow for _, _, flow in self._kinds):
            return dict.fromkeys(FLOW_FIELDS, same_text("", len(kind)))
        flows = [flow or ("",) * len(FLOW_FIELDS) for _, _, flow in self._kinds]
        return {
            name: take_text([flow[place] for flow in flows], kind) for place, name in enumerate(FLOW_FIELDS)
        }


def quantity_in(intervals: Iterable[Interval], minute: int) -> tuple[int, int]:
    """Return (quantity, lost quantity) of a line in one minute, by its closed form."""
    begin_ms, finish_ms = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
    quantity = lost = 0
    for start_ms, end_ms, rate, flag in intervals:
        amount = rate * max(0, min(end_ms, finish_ms) - max(start_ms, begin_ms))
        quantity += amount
        lost += amount * flag
    return quantity, lost


def _changed_minutes(before: list[Interval], after: list[Interval]) -> int:
    """Estimate how many minutes differ; a mere extension counts its new part only."""
    common = 0
    while common < min(len(before), len(after)) and before[common] == after[common]:
        common += 1
    rest = [*before[common:], *after[common:]]
    start_ms = min(interval[0] for interval in rest)
    end_ms = max(interval[1] for interval in rest)
    if common < min(len(before), len(after)) and before[common][0::2] == after[common][0::2]:
        start_ms = min(before[common][1], after[common][1])
    return (end_ms - start_ms) // MINUTE_MS + 2


def flat_intervals(
    lists: Sequence[Sequence[Interval]],
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """Return interval lists as (ptr, start, end, rate, lost) arrays."""
    ptr = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(intervals) for intervals in lists], out=ptr[1:])
    # One number at a time: numpy converts tuples at three times the cost.
    numbers = chain.from_iterable(chain.from_iterable(lists))
    flat = np.fromiter(numbers, np.int64, 4 * int(ptr[-1])).reshape(-1, 4)
    start, end, rate = (np.ascontiguousarray(flat[:, column]) for column in range(3))
    return ptr, start, end, rate, flat[:, 3].astype(np.uint8)
