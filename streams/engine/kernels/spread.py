"""Spreads amounts over the minutes and price lines of their intervals by the floor rule, exact in 128 bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from schemas.durations import MINUTE_MS
from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, U8, check_pointers, equal_lengths, exact
from streams.engine.kernels.wide import mul_div_floor, saturating_add, saturating_mul

# Minutes are int32 in the result, whatever the caller allows.
MINUTE_MIN = -(2**31)
MINUTE_MAX = 2**31 - 1


@kernel
def _part(linear: int, amount: int, start_ms: int, interval_ms: int, a: int, b: int) -> int:
    """What of the amount falls on [a, b), a piece of its interval."""
    if linear != 0:
        return saturating_mul(amount, min(b - a, interval_ms))
    if interval_ms == 0:
        # All at the instant itself, the only piece there is.
        return amount
    before = mul_div_floor(amount, a - start_ms, interval_ms)
    return mul_div_floor(amount, b - start_ms, interval_ms) - before


@kernel
def _first_after(values: I64, lo: int, hi: int, at_ms: int) -> int:
    """The first position in [lo, hi) whose value is above `at_ms`."""
    while lo < hi:
        middle = (lo + hi) // 2
        if values[middle] > at_ms:
            hi = middle
        else:
            lo = middle + 1
    return lo


@kernel
def _window(start_ms: int, interval_ms: int, lo_ms: int, hi_ms: int) -> tuple[int, int]:
    """The part of the event inside the requested minutes; an instant lasts 1 ms."""
    return max(start_ms, lo_ms), min(start_ms + max(interval_ms, 1), hi_ms)


@kernel
def _lost_part(
    linear: int,
    amount: int,
    start_ms: int,
    interval_ms: int,
    a: int,
    b: int,
    lost_start_ms: I64,
    lost_end_ms: I64,
) -> int:
    """What of the piece [a, b) lies inside the lost intervals."""
    part = 0
    k = _first_after(lost_end_ms, 0, lost_end_ms.size, a)
    while k < lost_start_ms.size and lost_start_ms[k] < b:
        c, d = max(lost_start_ms[k], a), min(lost_end_ms[k], b)
        if c < d:
            part = saturating_add(part, _part(linear, amount, start_ms, interval_ms, c, d))
        k += 1
    return part


@kernel
def _max_pieces(
    amount: I64, start_ms: I64, interval_ms: I64, cut_ptr: I64, cut_ms: I64, lo_ms: int, hi_ms: int
) -> int:
    """The greatest number of pieces, or -1 - i where event i is out of range."""
    room = 0
    for i in range(amount.size):
        if amount[i] < 0 or interval_ms[i] < 0:
            return -1 - i
        a, b = _window(start_ms[i], interval_ms[i], lo_ms, hi_ms)
        if a < b and amount[i] > 0:
            room += (b - 1) // MINUTE_MS - a // MINUTE_MS + 1
            first = _first_after(cut_ms, cut_ptr[i], cut_ptr[i + 1], a)
            room += _first_after(cut_ms, first, cut_ptr[i + 1], b) - first
    return room


@kernel
def _pieces(
    linear: U8,
    amount: I64,
    start_ms: I64,
    interval_ms: I64,
    cut_ptr: I64,
    cut_ms: I64,
    cut_line: I32,
    lo_ms: int,
    hi_ms: int,
    lost_start_ms: I64,
    lost_end_ms: I64,
    line: I32,
    minute: I32,
    quantity: I64,
    lost: I64,
) -> int:
    """Write the pieces of all events; their number."""
    found = 0
    for i in range(amount.size):
        a, stop = _window(start_ms[i], interval_ms[i], lo_ms, hi_ms)
        if a >= stop or amount[i] == 0:
            continue
        cut = _first_after(cut_ms, cut_ptr[i], cut_ptr[i + 1], a)
        while a < stop:
            b = min(stop, (a // MINUTE_MS + 1) * MINUTE_MS)
            if cut < cut_ptr[i + 1]:
                b = min(b, cut_ms[cut])
            part = 0
            if cut > cut_ptr[i] and cut_line[cut - 1] >= 0:
                part = _part(linear[i], amount[i], start_ms[i], interval_ms[i], a, b)
            if part > 0:
                line[found] = cut_line[cut - 1]
                minute[found] = a // MINUTE_MS
                quantity[found] = part
                lost[found] = _lost_part(
                    linear[i], amount[i], start_ms[i], interval_ms[i], a, b, lost_start_ms, lost_end_ms
                )
                found += 1
            while cut < cut_ptr[i + 1] and cut_ms[cut] <= b:
                cut += 1
            a = b
    return found


@kernel
def _merge(
    order: I64, line: I32, minute: I32, quantity: I64, lost: I64, rows: tuple[I32, I32, I64, I64]
) -> int:
    """Sum the pieces of equal (line, minute), taken in `order`, into `rows`; their number."""
    found = 0
    for k in range(order.size):
        i = order[k]
        if found == 0 or rows[0][found - 1] != line[i] or rows[1][found - 1] != minute[i]:
            rows[0][found] = line[i]
            rows[1][found] = minute[i]
            rows[2][found] = 0
            rows[3][found] = 0
            found += 1
        rows[2][found - 1] = saturating_add(rows[2][found - 1], quantity[i])
        rows[3][found - 1] = saturating_add(rows[3][found - 1], lost[i])
    return found


def spread(
    linear: ArrayLike,
    amount: ArrayLike,
    start_ms: ArrayLike,
    interval_ms: ArrayLike,
    cut_ptr: ArrayLike,
    cut_ms: ArrayLike,
    cut_line: ArrayLike,
    lo_minute: int,
    hi_minute: int,
    lost_start_ms: ArrayLike,
    lost_end_ms: ArrayLike,
) -> tuple[I32, I32, I64, I64]:
    """(line, minute, quantity, lost) of the minutes [lo_minute, hi_minute), sorted by (line, minute).

    Event i covers [start, start + interval]; from cut_ms[j] on (ascending; the first is int64 min) its pieces belong to
    cut_line[j], where -1 is not booked. Before x lies floor(amount * (x - start) / interval) of it, of a linear one
    amount * (x - start); an interval of 0 has everything at its start, a linear one nothing. Lost is the part inside
    the lost intervals [start, end), disjoint and sorted. Equal (line, minute) are summed, at most to int64 max; rows of
    quantity 0 are left out. A piece costs about 0.1 us.

    Raises:
        ValueError: An amount or interval is negative, or the arrays do not fit each other.
    """
    flags, sizes = exact(linear, np.uint8), exact(amount, np.int64)
    starts, lengths = exact(start_ms, np.int64), exact(interval_ms, np.int64)
    pointers, cuts, lines = exact(cut_ptr, np.int64), exact(cut_ms, np.int64), exact(cut_line, np.int32)
    lost_from, lost_to = exact(lost_start_ms, np.int64), exact(lost_end_ms, np.int64)
    equal_lengths(flags, sizes, starts, lengths, pointers[1:])
    check_pointers(pointers, equal_lengths(cuts, lines))
    equal_lengths(lost_from, lost_to)
    lo_ms = max(lo_minute, MINUTE_MIN) * MINUTE_MS
    hi_ms = min(hi_minute, MINUTE_MAX) * MINUTE_MS
    room = _max_pieces(sizes, starts, lengths, pointers, cuts, lo_ms, hi_ms)
    if room < 0:
        raise ValueError(
            f"event {-1 - room}: amount {sizes[-1 - room]}, interval {lengths[-1 - room]} below 0"
        )
    pieces = _rows(room)
    found = _pieces(
        flags, sizes, starts, lengths, pointers, cuts, lines, lo_ms, hi_ms, lost_from, lost_to, *pieces
    )
    line, minute, quantity, lost = pieces[0][:found], pieces[1][:found], pieces[2][:found], pieces[3][:found]
    # Sums do not depend on the order of equal keys, so the sort need not be stable.
    order = np.argsort((line.astype(np.int64) << 32) + (minute.astype(np.int64) - MINUTE_MIN))
    rows = _rows(found)
    merged = _merge(order, line, minute, quantity, lost, rows)
    return rows[0][:merged], rows[1][:merged], rows[2][:merged], rows[3][:merged]


def _rows(count: int) -> tuple[I32, I32, I64, I64]:
    return (
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
