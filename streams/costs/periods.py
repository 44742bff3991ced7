"""Where the cells of a request begin, and those beside them: hours, or days, weeks and months of its calendar."""

from __future__ import annotations

from schemas.durations import HOUR_MS
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
