"""Where the cells of a request begin, and those beside them: hours, or days, weeks and months of its calendar."""

from __future__ import annotations

from schemas.durations import DAY_MS, HOUR_MS
from streams.calendar import BOUNDS_MAX, Calendar
from streams.costs.request import CostRequest, Period


def floor_ms(at_ms: int, request: CostRequest) -> int:
    """The first instant (ms) of the cell in which a whole hour lies."""
    if request.per in (Period.all, Period.hour):
        return at_ms
    return request.calendar.start_of(request.per, at_ms)


def next_ms(start_ms: int, request: CostRequest) -> int:
    """Where the hour, day, week or month after the one that begins at an instant (ms) begins."""
    if request.per is Period.hour:
        return start_ms + HOUR_MS
    return request.calendar.end_of(request.per, start_ms)


def previous_ms(start_ms: int, request: CostRequest) -> int:
    """Where the hour, day, week or month before the one that begins at an instant (ms) begins."""
    if request.per is Period.hour:
        return start_ms - HOUR_MS
    return request.calendar.before(request.per, start_ms)


def span_before_ms(begin_ms: int, end_ms: int, calendar: Calendar) -> int:
    """Where the span begins that ends where this one begins: as many months if these are whole ones, or days, or as long.

    A month is compared with the month before it, a quarter with three months, and a day on which clocks change with a day.
    """
    for per in (Period.month, Period.day):
        is_whole = all(calendar.start_of(per, at_ms) == at_ms for at_ms in (begin_ms, end_ms))
        if is_whole and (end_ms - begin_ms) // DAY_MS < BOUNDS_MAX:
            before_ms = begin_ms
            for _ in calendar.starts(per, begin_ms, end_ms):
                before_ms = calendar.before(per, before_ms)
            return before_ms
    return max(2 * begin_ms - end_ms, 0)
