"""The periods of budgets: days, weeks and months of UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from schemas.durations import DAY_MS

#: The kinds of periods that have an end.
CALENDAR: Final = ("day", "week", "month")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class CalendarPeriod(NamedTuple):
    """[start_ms, end_ms); None: it never ends. A start of 0 stands for all that was ever used."""

    start_ms: int
    end_ms: int | None


ALWAYS: Final = CalendarPeriod(0, None)


def period_at(per: str, at_ms: int) -> CalendarPeriod:
    """The period of that kind (`day`, `week`, `month`, `total`, `run`) that contains an instant."""
    day = at_ms // DAY_MS
    if per == "day":
        return CalendarPeriod(day * DAY_MS, (day + 1) * DAY_MS)
    if per == "week":
        monday = day - (day + 3) % 7  # 1970-01-01 was a Thursday
        return CalendarPeriod(monday * DAY_MS, (monday + 7) * DAY_MS)
    if per == "month":
        at = _EPOCH + timedelta(days=day)
        first = at.replace(day=1)
        following = (first + timedelta(days=32)).replace(day=1)
        return CalendarPeriod(_ms(first), _ms(following))
    return ALWAYS


def periods(per: str, from_ms: int, until_ms: int) -> Iterator[CalendarPeriod]:
    """Yield the periods that have an instant in [from_ms, until_ms], in order."""
    period = period_at(per, from_ms)
    while True:
        yield period
        if period.end_ms is None or period.end_ms > until_ms:
            return
        period = period_at(per, period.end_ms)


def named(per: str, period: CalendarPeriod) -> str:
    """How people call it, to follow `for`."""
    start = _EPOCH + timedelta(milliseconds=period.start_ms)
    if per == "day":
        return f"{start:%Y-%m-%d}"
    if per == "week":
        return f"the week of {start:%Y-%m-%d}"
    if per == "month":
        return f"{start:%B %Y}"
    return "this run" if per == "run" else "all time"


def _ms(at: datetime) -> int:
    return int((at - _EPOCH) / timedelta(milliseconds=1))
