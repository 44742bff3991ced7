"""Finds the minutes of a line whose quantity changed: old and new intervals in, changed minutes out.

It must skip minutes in which both lists agree at every instant: the cost is proportional to what changed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from schemas.durations import MINUTE_MS
from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, INT64_MAX, U8, check_pointers, equal_lengths, exact

# A whole minute at a greater rate would overflow int64; rates are capped to this.
MAX_RATE = INT64_MAX // MINUTE_MS


@kernel
def _rate(rate: int) -> int:
    return min(max(rate, 0), MAX_RATE)


@kernel
def _skip(i: int, stop: int, start: I64, end: I64, at_ms: int) -> int:
    """The first interval from i on that is not empty and ends after `at_ms`."""
    while i < stop and (end[i] <= at_ms or end[i] <= start[i]):
        i += 1
    return i


@kernel
def _value_at(
    i: int, stop: int, start: I64, end: I64, rate: I64, lost: U8, at_ms: int
) -> tuple[int, int, int]:
    """Rate and lost rate at `at_ms`, and until when they apply; i: the first interval that ends after it."""
    if i >= stop:
        return 0, 0, INT64_MAX
    if start[i] > at_ms:
        return 0, 0, start[i]
    value = _rate(rate[i])
    if lost[i] != 0:
        return value, value, end[i]
    return value, 0, end[i]


@kernel
def _in_minute(i: int, stop: int, start: I64, end: I64, rate: I64, lost: U8, from_ms: int) -> tuple[int, int]:
    """Quantity and lost quantity of the minute that begins at `from_ms`; i: its first interval."""
    until_ms = from_ms + MINUTE_MS
    quantity = 0
    part = 0
    while i < stop and start[i] < until_ms:
        length_ms = min(end[i], until_ms) - max(start[i], from_ms)
        if length_ms > 0:
            amount = _rate(rate[i]) * length_ms
            quantity += amount
            if lost[i] != 0:
                part += amount
        i += 1
    return quantity, part


@kernel
def _walk(
    old_ptr: I64,
    old_start: I64,
    old_end: I64,
    old_rate: I64,
    old_lost: U8,
    new_ptr: I64,
    new_start: I64,
    new_end: I64,
    new_rate: I64,
    new_lost: U8,
    line: I32,
    minute: I32,
    quantity: I64,
    lost: I64,
    before: I64,
) -> int:
    """Count the changed minutes, and write those for which the output arrays have room."""
    found = 0
    for k in range(old_ptr.size - 1):
        i, i_stop = old_ptr[k], old_ptr[k + 1]
        j, j_stop = new_ptr[k], new_ptr[k + 1]
        # The first interval of each list that may overlap the current minute.
        a, b = i, j
        while (
            i < i_stop
            and j < j_stop
            and old_start[i] == new_start[j]
            and old_end[i] == new_end[j]
            and old_rate[i] == new_rate[j]
            and old_lost[i] == new_lost[j]
        ):
            i += 1
            j += 1
        at_ms = -INT64_MAX
        next_minute = -INT64_MAX
        while True:
            i = _skip(i, i_stop, old_start, old_end, at_ms)
            j = _skip(j, j_stop, new_start, new_end, at_ms)
            if i == i_stop and j == j_stop:
                break
            # Both lists are constant on [at_ms, until_ms).
            old_value, old_part, old_until = _value_at(
                i, i_stop, old_start, old_end, old_rate, old_lost, at_ms
            )
            new_value, new_part, new_until = _value_at(
                j, j_stop, new_start, new_end, new_rate, new_lost, at_ms
            )
            until_ms = min(old_until, new_until)
            if old_value != new_value or old_part != new_part:
                m = max(at_ms // MINUTE_MS, next_minute)
                next_minute = (until_ms - 1) // MINUTE_MS + 1
                while m < next_minute:
                    from_ms = m * MINUTE_MS
                    a = _skip(a, i_stop, old_start, old_end, from_ms)
                    b = _skip(b, j_stop, new_start, new_end, from_ms)
                    was, was_lost = _in_minute(a, i_stop, old_start, old_end, old_rate, old_lost, from_ms)
                    now, now_lost = _in_minute(b, j_stop, new_start, new_end, new_rate, new_lost, from_ms)
                    if was != now or was_lost != now_lost:
                        if found < line.size:
                            line[found] = k
                            minute[found] = m
                            quantity[found] = now
                            lost[found] = now_lost
                            before[found] = was
                        found += 1
                    m += 1
            at_ms = until_ms
    return found


def diff_minutes(
    old_ptr: ArrayLike,
    old_start: ArrayLike,
    old_end: ArrayLike,
    old_rate: ArrayLike,
    old_lost: ArrayLike,
    new_ptr: ArrayLike,
    new_start: ArrayLike,
    new_end: ArrayLike,
    new_rate: ArrayLike,
    new_lost: ArrayLike,
) -> tuple[I32, I32, I64, I64, I64]:
    """(line, minute, quantity, lost, quantity before) of each minute that differs between old and new.

    The intervals [start_ms, end_ms) of a line are disjoint and sorted; rates are per ms. Intervals that are empty, or
    whose rate is not positive, are ignored. A minute that is gone is returned with zeros. Rows are sorted by (line,
    minute). A changed minute costs about 50 ns: pass what fits a time slice.

    Raises:
        ValueError: The arrays do not fit each other.
    """
    old = _lists(old_ptr, old_start, old_end, old_rate, old_lost)
    new = _lists(new_ptr, new_start, new_end, new_rate, new_lost)
    equal_lengths(old[0], new[0])
    found = _walk(*old, *new, *_rows(0))
    rows = _rows(found)
    _walk(*old, *new, *rows)
    return rows


def _lists(
    ptr: ArrayLike, start: ArrayLike, end: ArrayLike, rate: ArrayLike, lost: ArrayLike
) -> tuple[I64, I64, I64, I64, U8]:
    columns = exact(start, np.int64), exact(end, np.int64), exact(rate, np.int64), exact(lost, np.uint8)
    pointers = exact(ptr, np.int64)
    check_pointers(pointers, equal_lengths(*columns))
    return pointers, *columns


def _rows(count: int) -> tuple[I32, I32, I64, I64, I64]:
    return (
        np.empty(count, np.int32),
        np.empty(count, np.int32),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
        np.empty(count, np.int64),
    )
