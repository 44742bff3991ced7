"""The calendar of cells: where an hour, day, week or month (UTC) begins, and those beside it."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from streams.costs.request import Period

_STEP: Final = {
    Period.hour: timedelta(hours=1),
    Period.day: timedelta(days=1),
    Period.week: timedelta(days=7),
}


def floor_of(at: datetime, per: Period) -> datetime:
    """The first instant of the period in which a whole hour lies."""
    if per in (Period.all, Period.hour):
        return at
    day = at.replace(hour=0)
    if per is Period.month:
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if per is Period.week else day


def next_start(start: datetime, per: Period) -> datetime:
    """Where the period after an hour, day, week or month begins."""
    return (start + timedelta(days=32)).replace(day=1) if per is Period.month else start + _STEP[per]


def previous_start(start: datetime, per: Period) -> datetime:
    """Where the period before an hour, day, week or month begins."""
    return (start - timedelta(days=1)).replace(day=1) if per is Period.month else start - _STEP[per]
