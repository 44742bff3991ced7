"""Collects the changed hours of a shard's attempts and sums them all in one kernel call.

An hour row is absolute: it is summed anew from the lines, rows and timeline of its attempt, never added to.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import starmap
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from schemas.column_types import OFFSETS, SECOND
from schemas.columns import money, table_of, take_text
from schemas.durations import HOUR_MS
from schemas.events import PRICE_FIELDS
from schemas.tables import JOB_HOURS, SCHEMAS
from schemas.units import COMPONENTS
from streams.engine.coverage.coverage import Coverage
from streams.engine.coverage.fold_result import UsagePiece
from streams.engine.kernels.arrays import INT64_MAX
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.kernels.hour_sums import sum_hours
from streams.engine.kernels.overlaps import overlaps
from streams.engine.ledger.rows import flat_intervals
from streams.engine.pricing.kinds import PriceRef
from streams.engine.state.hour_measures import (
    COST_OF,
    FIRST_COST,
    GPU,
    LOST_COST,
    LOST_GPU,
    MEASURES,
    QUEUED,
    SAMPLED_GPU,
    STARTING,
    STARTING_LOST_COST,
    UNPRICED_GPU,
    WALL_CLOCK,
    Fields,
    OpenHour,
    Sums,
)
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Lines

#: The measures that a curve adds to: quantity, lost quantity, cost, lost cost, and once more the quantity and the lost
#: cost; -1: none.
_Columns = tuple[int, int, int, int, int, int]
_BILLED: Final[_Columns] = (WALL_CLOCK, STARTING, -1, -1, -1, -1)
_WAITED: Final[_Columns] = (QUEUED, -1, -1, -1, -1, -1)
#: In place of a price, of time that has none: from the end of the list of prices.
_BILLED_PRICE: Final = -1
_WAITED_PRICE: Final = -2
_MEASURE_COLUMNS: Final = (
    "wall_clock_ms", "queued_ms", "starting_ms", "gpu_milli_ms", "lost_gpu_milli_ms", "unpriced_gpu_milli_ms",
    "sampled_gpu_ms", "productive_gpu_ms", "tensor_gpu_ms", "tensor_sampled_gpu_ms",
    *(f"{component}_cost_usd" for component in COMPONENTS), "lost_cost_usd", "starting_lost_cost_usd",
)  # fmt: skip


class HourRows:
    """Hours to be written, by attempt; their sampled usage is that of the coverage when they are summed."""

    def __init__(self, coverage: Coverage) -> None:
        self._coverage = coverage
        self._usage: list[UsagePiece] = []
        # By row.
        self._job_ids: list[str] = []
        self._attempts = array("I")
        self._hours = array("q")
        self._fields = array("i")
        self._field_index: dict[Fields, int] = {}
        self._keeps = array("b")  # whether it is written even if it is empty
        # Rows that the table may not have yet, with what their attempts have there.
        self._unwritten: list[tuple[int, dict[Fields, tuple[int, int]]]] = []
        self._singles: list[tuple[int, list[int]]] = []  # (row, its sums of single rows)
        self._sampled: list[tuple[int, int, int]] = []  # (row, from_ms, until_ms): paid by samples alone
        # By attempt, and by piece of its time.
        self._piece_ptr = array("q", [0])
        self._from_ms = array("q")
        self._until_ms = array("q")
        self._rows = array("q")
        # By curve.
        self._owners = array("i")
        self._prices: list[int] = []
        self._price_index: dict[tuple[PriceRef, bool], int] = {}  # and whether it is paid while starting
        self._curves: list[Sequence[Interval]] = []

    def add_row(
        self,
        job_id: str,
        attempt: int,
        hour: int,
        fields: Fields,
        written: dict[Fields, tuple[int, int]],
    ) -> int:
        """Add a row and return its position; one that is empty is written only if it replaces another.

        Args:
            job_id: The job's id.
            attempt: The attempt's number.
            hour: Hours since 1970.
            fields: The row's price fields.
            written: By price fields, the first and last hour that the attempt may have in the table. `table` adds the
                hour if the row is not empty.
        """
        row, span = len(self._hours), written.get(fields)
        keep = span is not None and span[0] <= hour <= span[1]
        if not keep:
            self._unwritten.append((row, written))
        self._job_ids.append(job_id)
        self._attempts.append(attempt)
        self._hours.append(hour)
        self._fields.append(self._field_index.setdefault(fields, len(self._field_index)))
        self._keeps.append(keep)
        return row

    def add_piece(self, row: int, from_ms: int, until_ms: int) -> None:
        """Add time, in order, of the attempt whose curves are added next."""
        self._from_ms.append(from_ms)
        self._until_ms.append(until_ms)
        self._rows.append(row)

    def add_curves(self, lines: Lines, billed: Sequence[Interval], waits: Sequence[Interval]) -> None:
        """Add what an attempt paid for and waited for in the pieces added since the last call."""
        owner, index = len(self._piece_ptr) - 1, self._price_index
        self._piece_ptr.append(len(self._rows))
        for line, intervals in lines.items():
            priced = (line.price, line.phase == "starting")
            self._add_curve(owner, index.setdefault(priced, len(index)), intervals)
        if billed:
            self._add_curve(owner, _BILLED_PRICE, billed)
        if waits:
            self._add_curve(owner, _WAITED_PRICE, waits)

    def add_again(self, job_id: str, attempt: int, known: OpenHour, sums: Sums) -> None:
        """Add the rows of an hour of an open attempt that has only become longer, with the sums of their single rows."""
        first, places = len(self._hours), known.places
        for fields in places:
            self._job_ids.append(job_id)
            self._attempts.append(attempt)
            self._hours.append(known.hour)
            self._fields.append(self._field_index.setdefault(fields, len(self._field_index)))
            self._keeps.append(True)
        for from_ms, until_ms, place in known.time:
            self.add_piece(first + place, from_ms, until_ms)
        for fields, of_fields in sums.items():
            self._singles.append((first + places[fields], of_fields))
        for lo, hi, place in known.usage:
            self._usage.append(UsagePiece(job_id, attempt, lo, hi, first + place))
        self.add_curves(known.lines, known.billed, known.waits)

    def _add_curve(self, owner: int, price: int, intervals: Sequence[Interval]) -> None:
        self._owners.append(owner)
        self._prices.append(price)
        self._curves.append(intervals)

    def add_singles(self, row: int, sums: list[int]) -> None:
        """Add the sums of single rows to a row."""
        self._singles.append((row, sums))

    def add_sampled(self, row: int, from_ms: int, until_ms: int) -> None:
        """Add time that an attempt without events is paid for, in order."""
        self._sampled.append((row, from_ms, until_ms))

    def add_usage(self, piece: UsagePiece) -> None:
        """Add the usage of minutes to a row."""
        self._usage.append(piece)

    def forget_owed_hours(self, job_id: str, attempt: int) -> None:
        """Record that these rows have all hours of an attempt that its samples changed."""
        self._coverage.forget_owed_hours(job_id, attempt)

    def table(self, shard: int, version: int) -> pa.Table:
        """Return the rows as a `job_hours` table."""
        ptr, start, end, rate, lost = flat_intervals(self._curves)
        sums = self._summed(ptr, start, end, rate, lost)
        is_kept = sums.any(axis=1) | np.array(self._keeps, np.bool_)
        self._mark_rows_written(is_kept)
        kept = np.flatnonzero(is_kept)
        fields, sums = np.array(self._fields, np.int32)[kept], sums[kept]
        size = len(kept)
        hour_s = np.array(self._hours, np.int64)[kept] * 3600
        columns: dict[str, pa.Array] = {
            "hour": pa.Array.from_buffers(SECOND, size, [None, pa.py_buffer(hour_s)]),
            "job_id": take_text(self._job_ids, kept.astype(np.int32)),
            "attempt": pa.array(np.array(self._attempts, np.uint32)[kept]),
            "shard": pa.array(np.full(size, shard, np.uint16)),
            "version": pa.array(np.full(size, version, np.uint64)),
        }
        for place, name in enumerate(PRICE_FIELDS):
            columns[name] = take_text([each[place] for each in self._field_index], fields)
        for place, name in enumerate(_MEASURE_COLUMNS):
            values = np.ascontiguousarray(sums[:, place])
            columns[name] = pa.array(values) if place < FIRST_COST else money(values)
        columns |= self._spans(ptr, start, end, kept)
        return table_of(SCHEMAS[JOB_HOURS], columns)

    def _mark_rows_written(self, is_kept: NDArray[np.bool_]) -> None:
        """Add the hours of the rows that are kept to what their attempts have in the table."""
        names = list(self._field_index)
        for row, written in self._unwritten:
            if is_kept[row]:
                fields, hour = names[self._fields[row]], self._hours[row]
                first, last = written.get(fields, (hour, hour))
                written[fields] = min(first, hour), max(last, hour)

    def _spans(
        self, ptr: NDArray[np.int64], start: NDArray[np.int64], end: NDArray[np.int64], kept: NDArray[np.intp]
    ) -> dict[str, pa.Array]:
        """Return the columns of the spans in which the kept rows are paid; a row that is not kept has none."""
        billed = np.flatnonzero(np.array(self._prices, np.int64) == _BILLED_PRICE)
        owners = np.array(self._owners, np.int32)[billed]
        found = overlaps(ptr, start, end, billed, owners, self._piece_ptr, self._from_ms, self._until_ms)
        sampled = np.array(self._sampled, np.int64).reshape(-1, 3)
        row = np.concatenate([np.array(self._rows, np.int64)[found.piece], sampled[:, 0]])
        from_ms = np.concatenate([found.from_ms, sampled[:, 1]])
        until_ms = np.concatenate([found.until_ms, sampled[:, 2]])
        order = np.lexsort((from_ms, row))
        row, from_ms, until_ms = row[order], from_ms[order], until_ms[order]
        # One that goes on where the one before ends is no new span.
        first = np.ones(row.size, np.bool_)
        first[1:] = (row[1:] != row[:-1]) | (from_ms[1:] != until_ms[:-1])
        last = np.append(first[1:], True)[: row.size]
        begin_ms = HOUR_MS * np.array(self._hours, np.int64)[row[first]]
        ends = np.cumsum(np.bincount(row[first], minlength=len(self._hours))[kept])
        offsets = pa.array(np.concatenate([[0], ends]), pa.int32())
        values = {
            "wall_clock_from_ms": from_ms[first] - begin_ms,
            "wall_clock_until_ms": until_ms[last] - begin_ms,
        }
        return {
            name: pa.ListArray.from_arrays(offsets, pa.array(each, pa.uint32()))
            for name, each in values.items()
        }

    def _summed(
        self,
        ptr: NDArray[np.int64],
        start: NDArray[np.int64],
        end: NDArray[np.int64],
        rate: NDArray[np.int64],
        lost: NDArray[np.uint8],
    ) -> NDArray[np.int64]:
        """Return the measures of each row ([n, MEASURES] int64) of the curves' intervals."""
        sums = np.zeros((len(self._hours), MEASURES), np.int64)
        if self._singles:
            np.add.at(sums, [row for row, _ in self._singles], _capped([each for _, each in self._singles]))
        self._coverage.add_usage(self._usage, sums, SAMPLED_GPU)
        price = np.array(self._prices, np.int64)
        prices = [price for price, _ in self._price_index]
        usd_nano = np.array([*(each.usd_nano for each in prices), 0, 0], np.int64)[price]
        divisor = np.array([*(each.divisor for each in prices), 1, 1], np.int64)[price]
        into = np.array([*starmap(_columns_of, self._price_index), _WAITED, _BILLED], np.int32)[price]
        pieces = self._piece_ptr, self._from_ms, self._until_ms, self._rows
        sum_hours(ptr, start, end, rate, lost, self._owners, usd_nano, divisor, into, *pieces, sums)
        np.minimum(sums[:, FIRST_COST:], MAX_COST_NANO, out=sums[:, FIRST_COST:])
        return sums

    def __bool__(self) -> bool:
        return bool(self._job_ids)


def _capped(singles: list[list[int]]) -> NDArray[np.int64]:
    """Return sums of single rows as an array; what does not fit becomes the largest number."""
    try:
        return np.array(singles, np.int64)
    except OverflowError:
        return np.array([[min(value, INT64_MAX) for value in each] for each in singles], np.int64)


def _columns_of(price: PriceRef, is_starting: bool) -> _Columns:
    cost, starting = COST_OF[price.component], STARTING_LOST_COST if is_starting else -1
    if price.component != "gpu":
        return (-1, -1, cost, LOST_COST, -1, starting)
    return (GPU, LOST_GPU, cost, LOST_COST, -1 if price.sku else UNPRICED_GPU, starting)


def emptied_hours(rows: pa.Table, shard: int, version: int) -> pa.Table:
    """Return stored rows of `job_hours` with all measures 0."""
    zeros = np.zeros(len(rows), np.int64)
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    for place, name in enumerate(_MEASURE_COLUMNS):
        columns[name] = pa.array(zeros) if place < FIRST_COST else money(zeros)
    for name in ("wall_clock_from_ms", "wall_clock_until_ms"):
        columns[name] = pa.array([[]] * len(rows), OFFSETS)
    columns["shard"] = pa.array(np.full(len(rows), shard, np.uint16))
    columns["version"] = pa.array(np.full(len(rows), version, np.uint64))
    return table_of(SCHEMAS[JOB_HOURS], columns)
