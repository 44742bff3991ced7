"""Sums the minutes of ledger lines by hour: intervals and hours in, quantities and costs out.

The cost of an hour is the sum of the costs of its minutes, each rounded; the cost does not depend on the hour's length
in minutes, as whole minutes of one rate cost the same.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from schemas.durations import MINUTE_MS
from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, U8, check_pointers, equal_lengths, exact
from streams.engine.kernels.bill import MAX_COST_NANO, cost_of
from streams.engine.kernels.minutes import MAX_RATE
from streams.engine.kernels.wide import saturating_add, saturating_mul


@kernel
def _add_cost(total: int, cost: int, times: int) -> int:
    """Total + cost x times, at most MAX_COST_NANO."""
    cost = min(cost, MAX_COST_NANO)
    if cost > (MAX_COST_NANO - total) // times:
        return MAX_COST_NANO
    return total + cost * times


@kernel
def _sum_between(
    i: int,
    stop: int,
    start: I64,
    end: I64,
    rate: I64,
    lost: U8,
    from_ms: int,
    until_ms: int,
    usd_nano: int,
    divisor: int,
) -> tuple[int, int, int, int]:
    """Quantity, lost quantity, cost and lost cost of [from_ms, until_ms); i: its first interval."""
    quantity = 0
    lost_quantity = 0
    cost = 0
    lost_cost = 0
    # The minute that several intervals share.
    at_minute_ms = from_ms
    part = 0
    lost_part = 0
    while i < stop and start[i] < until_ms:
        at_ms = max(start[i], from_ms)
        to_ms = min(end[i], until_ms)
        per_ms = min(max(rate[i], 0), MAX_RATE)
        while at_ms < to_ms:
            minute_ms = at_ms - at_ms % MINUTE_MS
            if minute_ms != at_minute_ms:
                if part > 0:
                    cost = _add_cost(cost, cost_of(part, usd_nano, divisor), 1)
                if lost_part > 0:
                    lost_cost = _add_cost(lost_cost, cost_of(lost_part, usd_nano, divisor), 1)
                at_minute_ms = minute_ms
                part = 0
                lost_part = 0
            minutes = (to_ms - at_ms) // MINUTE_MS
            if part == 0 and at_ms == minute_ms and minutes > 0:
                amount = per_ms * MINUTE_MS
                each = cost_of(amount, usd_nano, divisor)
                cost = _add_cost(cost, each, minutes)
                quantity = saturating_add(quantity, saturating_mul(amount, minutes))
                if lost[i] != 0:
                    lost_cost = _add_cost(lost_cost, each, minutes)
                    lost_quantity = saturating_add(lost_quantity, saturating_mul(amount, minutes))
                at_ms += minutes * MINUTE_MS
            else:
                next_ms = min(to_ms, minute_ms + MINUTE_MS)
                amount = per_ms * (next_ms - at_ms)
                part += amount
                quantity = saturating_add(quantity, amount)
                if lost[i] != 0:
                    lost_part += amount
                    lost_quantity = saturating_add(lost_quantity, amount)
                at_ms = next_ms
        i += 1
    if part > 0:
        cost = _add_cost(cost, cost_of(part, usd_nano, divisor), 1)
    if lost_part > 0:
        lost_cost = _add_cost(lost_cost, cost_of(lost_part, usd_nano, divisor), 1)
    return quantity, lost_quantity, cost, lost_cost


@kernel
def _add(sums: I64, row: int, column: int, amount: int) -> None:
    if column >= 0:
        sums[row, column] = saturating_add(sums[row, column], amount)


@kernel
def _sum_pieces(
    curve_ptr: I64,
    start: I64,
    end: I64,
    rate: I64,
    lost: U8,
    owner: I32,
    usd_nano: I64,
    divisor: I64,
    columns: I32,
    piece_ptr: I64,
    from_ms: I64,
    until_ms: I64,
    row: I64,
    sums: I64,
) -> None:
    for k in range(owner.size):
        i, stop = curve_ptr[k], curve_ptr[k + 1]
        for p in range(piece_ptr[owner[k]], piece_ptr[owner[k] + 1]):
            minute_ms = from_ms[p] - from_ms[p] % MINUTE_MS
            while i < stop and end[i] <= minute_ms:
                i += 1
            if i == stop:
                break
            if start[i] >= until_ms[p]:
                continue
            quantity, lost_quantity, cost, lost_cost = _sum_between(
                i, stop, start, end, rate, lost, minute_ms, until_ms[p], usd_nano[k], divisor[k]
            )
            if minute_ms < from_ms[p]:  # what falls before a cut costs what it would cost alone
                before = _sum_between(
                    i, stop, start, end, rate, lost, minute_ms, from_ms[p], usd_nano[k], divisor[k]
                )
                quantity -= before[0]
                lost_quantity -= before[1]
                cost -= before[2]
                lost_cost -= before[3]
            _add(sums, row[p], columns[k, 0], quantity)
            _add(sums, row[p], columns[k, 1], lost_quantity)
            _add(sums, row[p], columns[k, 2], cost)
            _add(sums, row[p], columns[k, 3], lost_cost)
            _add(sums, row[p], columns[k, 4], quantity)
            _add(sums, row[p], columns[k, 5], lost_cost)


def sum_hours(
    curve_ptr: ArrayLike,
    start: ArrayLike,
    end: ArrayLike,
    rate: ArrayLike,
    lost: ArrayLike,
    owner: ArrayLike,
    usd_nano: ArrayLike,
    divisor: ArrayLike,
    columns: ArrayLike,
    piece_ptr: ArrayLike,
    from_ms: ArrayLike,
    until_ms: ArrayLike,
    row: ArrayLike,
    sums: I64,
) -> None:
    """Add the quantities and costs of curves to rows, in place.

    A piece is time of an owner that belongs to one row. One may begin or end within a minute: what falls before the cut
    costs what it would cost alone, and the rest costs the rest, so that pieces of a minute add up to its cost.

    Args:
        curve_ptr: [curves + 1] int64; the intervals of curve k are curve_ptr[k]..curve_ptr[k + 1].
        start: [intervals] int64, ms; disjoint and ascending within a curve.
        end: [intervals] int64, ms.
        rate: [intervals] int64, quantity per ms.
        lost: [intervals] uint8, 1 if the interval is lost.
        owner: [curves] int32, the owner of each curve.
        usd_nano: [curves] int64, the price of `divisor` units in nano-dollars.
        divisor: [curves] int64.
        columns: [curves, 6] int32, the columns of `sums` for quantity, lost quantity, cost, lost cost and once more the
            quantity and the lost cost; -1: none.
        piece_ptr: [owners + 1] int64; the pieces of owner o are piece_ptr[o]..piece_ptr[o + 1].
        from_ms: [pieces] int64, ascending within an owner.
        until_ms: [pieces] int64, at most the next `from_ms`.
        row: [pieces] int64, the row of each piece.
        sums: [rows, n] int64.

    Raises:
        ValueError: The arrays do not fit each other, or a value is out of range.
    """
    pointers, pieces = exact(curve_ptr, np.int64), exact(piece_ptr, np.int64)
    lists = exact(start, np.int64), exact(end, np.int64), exact(rate, np.int64), exact(lost, np.uint8)
    check_pointers(pointers, equal_lengths(*lists))
    owners, usd, per = exact(owner, np.int32), exact(usd_nano, np.int64), exact(divisor, np.int64)
    into, rows = exact(columns, np.int32), exact(row, np.int64)
    begins, ends = exact(from_ms, np.int64), exact(until_ms, np.int64)
    equal_lengths(pointers[1:], owners, usd, per, into)
    check_pointers(pieces, equal_lengths(begins, ends, rows))
    if into.ndim != 2 or into.shape[1] != 6:
        raise ValueError(f"columns of shape {into.shape}, expected (curves, 6)")
    # The kernel reads without bounds checks.
    if owners.size and not (owners.min() >= 0 and owners.max() < pieces.size - 1):
        raise ValueError("a curve has no owner")
    if rows.size and not (rows.min() >= 0 and rows.max() < len(sums)):
        raise ValueError(f"a piece is outside the {len(sums)} rows")
    if into.size and into.max() >= sums.shape[1]:
        raise ValueError(f"a column is outside the {sums.shape[1]} of the sums")
    if usd.size and (usd.min() < 0 or per.min() < 1):
        raise ValueError("a price is negative, or its divisor below 1")
    _sum_pieces(pointers, *lists, owners, usd, per, into, pieces, begins, ends, rows, sums)
