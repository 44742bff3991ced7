"""The periods of budgets: days, weeks and months of a calendar."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from streams.calendar import PERS, PLAIN, Calendar

#: The kinds of periods that have an end.
CALENDAR: Final = PERS


class CalendarPeriod(NamedTuple):
    """[start_ms, end_ms); None: it never ends. A start of 0 stands for all that was ever used."""

    start_ms: int
    end_ms: int | None


ALWAYS: Final = CalendarPeriod(0, None)


def period_at(per: str, at_ms: int, calendar: Calendar = PLAIN) -> CalendarPeriod:
    """The period of that kind (`day`, `week`, `month`, `total`, `run`) that contains an instant."""
    if per not in CALENDAR:
        return ALWAYS
    start_ms = calendar.start_of(per, at_ms)
    return CalendarPeriod(start_ms, calendar.end_of(per, start_ms))


def periods(per: str, from_ms: int, until_ms: int, calendar: Calendar = PLAIN) -> Iterator[CalendarPeriod]:
    """Yield the periods that have an instant in [from_ms, until_ms], in order."""
    period = period_at(per, from_ms, calendar)
    while True:
        yield period
        if period.end_ms is None or period.end_ms > until_ms:
            return
        period = CalendarPeriod(period.end_ms, calendar.end_of(per, period.end_ms))


def named(per: str, period: CalendarPeriod, calendar: Calendar = PLAIN) -> str:
    """How people call it, to follow `for`."""
    if per not in CALENDAR:
        return "this run" if per == "run" else "all time"
    start = calendar.date_of(period.start_ms)
    if per == "day":
        return f"{start:%Y-%m-%d}"
    if per == "week":
        return f"the week of {start:%Y-%m-%d}"
    return f"{start:%B %Y}" if calendar.has_plain_months else f"the month from {start:%Y-%m-%d} on"
