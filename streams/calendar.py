"""Days, weeks and months of a time zone and of a fiscal year, as instants.

Costs are kept by whole hours (UTC). Where midnight is none, as in Asia/Kolkata, a day begins with the first hour that begins in it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, tzinfo
from functools import cache, lru_cache
from itertools import accumulate
from typing import Final
from zoneinfo import ZoneInfo, available_timezones

from schemas.durations import DATETIME_END_MS, HOUR_MS

UTC_ZONE: Final = "UTC"
#: Weeks of the three months of a quarter; empty: months are those of the calendar, from the day of the year's start on.
PATTERNS: Final = {"calendar": (), "4-4-5": (4, 4, 5), "4-5-4": (4, 5, 4), "5-4-4": (5, 4, 4)}
WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
#: The periods of which a calendar says where they begin.
PERS: Final = ("day", "week", "month")
#: Bounds of one question: of days these are 27 years.
BOUNDS_MAX: Final = 10_000
_YEAR_START: Final = re.compile(r"(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])", re.ASCII)
_MONTH: Final = re.compile(r"[0-9]{4}-[0-9]{2}", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_WEEK: Final = timedelta(days=7)
#: From this day of a month on, a month that begins there is named as the next one.
_NAMED_AS_NEXT: Final = 16


@cache
def zone_names() -> frozenset[str]:
    """The names of the IANA time zone database: a name that is none of them is never looked up."""
    return frozenset(available_timezones())


@cache
def _zone(name: str) -> tzinfo:
    return UTC if name == UTC_ZONE else ZoneInfo(name)


@dataclass(frozen=True)
class Calendar:
    """Where days, weeks and months begin; the fields are checked by who sets them."""

    zone: str = UTC_ZONE
    week_start: str = WEEKDAYS[0]
    year_start: str = "01-01"
    months: str = "calendar"

    def __post_init__(self) -> None:
        """Refuse what is no calendar.

        Raises:
            ValueError: A field is none of its values; the message begins with the field's name.
        """
        if self.zone != UTC_ZONE and (len(self.zone) > 64 or self.zone not in zone_names()):
            raise ValueError("zone: expected a name of the IANA time zone database, as Europe/Berlin")
        if self.week_start not in WEEKDAYS:
            raise ValueError(f"week_start: expected one of {', '.join(WEEKDAYS)}")
        if not _YEAR_START.fullmatch(self.year_start):
            raise ValueError("year_start: expected month and day as 04-06, the day 28 at most")
        if self.months not in PATTERNS:
            raise ValueError(f"months: expected one of {', '.join(PATTERNS)}")

    @property
    def is_plain(self) -> bool:
        """Whether its days, weeks and months are those of UTC."""
        return self == PLAIN

    @property
    def has_plain_months(self) -> bool:
        """Whether its months begin on the first of each month."""
        return self.months == "calendar" and self.year_start.endswith("-01")

    def start_of(self, per: str, at_ms: int) -> int:
        """The first instant (ms) of the day, week or month that contains an instant."""
        first = self._first(per, self._day_of(at_ms))
        start = self._instant(first)
        # A day that a zone skipped begins where the next one does, and has no instant.
        return start if start <= at_ms else self._instant(self._first(per, first - _DAY))

    def end_of(self, per: str, start_ms: int) -> int:
        """The first instant after the day, week or month that begins at an instant."""
        first = self._first(per, self._day_of(start_ms))
        while (end := self._instant(first := self._next(per, first))) <= start_ms:
            pass
        return end

    def before(self, per: str, start_ms: int) -> int:
        """Where the day, week or month before the one that begins at an instant begins; 0 at the least."""
        return max(self.start_of(per, max(start_ms - HOUR_MS, 0)), 0)

    def starts(self, per: str, from_ms: int, to_ms: int) -> list[int]:
        """The starts (ms) of all days, weeks or months with an instant in [from_ms, to_ms), in order.

        Raises:
            ValueError: There are more than `BOUNDS_MAX`.
        """
        found = [self.start_of(per, from_ms)]
        while (following := self.end_of(per, found[-1])) < to_ms:
            if len(found) == BOUNDS_MAX:
                raise ValueError(
                    f"more than {BOUNDS_MAX} {per}s of {self.zone}; ask for less time, or longer periods"
                )
            found.append(following)
        return found

    def date_of(self, at_ms: int) -> date:
        """The day that contains an instant."""
        return self._day_of(at_ms)

    def instant_of(self, day: date) -> int:
        """The first instant (ms) of a day."""
        return self._instant(day)

    def local(self, at_ms: int) -> datetime:
        """An instant by the zone's clock."""
        return (_EPOCH + timedelta(milliseconds=at_ms)).astimezone(_zone(self.zone))

    def moment(self, wall: datetime) -> datetime:
        """A time of the zone's clock as an instant; of one that comes twice the first."""
        return wall.replace(tzinfo=_zone(self.zone), fold=0)

    def iso(self, at_ms: int) -> str:
        """An instant in ISO 8601, with `Z` in UTC and the offset elsewhere."""
        if self.zone == UTC_ZONE:
            return f"{_EPOCH + timedelta(milliseconds=at_ms):%Y-%m-%dT%H:%M:%SZ}"
        return self.local(at_ms).isoformat(timespec="seconds")

    def named_month(self, year: int, month: int) -> tuple[date, date]:
        """The first day of the fiscal month that has the name of a calendar month, and the day after its last one.

        A month that begins by the 15th is named as the month in which it begins, one that begins later as the next one.
        """
        begin_month, begin_day = self._year_start
        shift = 1 if begin_day >= _NAMED_AS_NEXT else 0
        place = (month - begin_month - shift) % 12
        if not PATTERNS[self.months]:
            at = year * 12 + month - 1 - shift
            first, until = (date(each // 12, each % 12 + 1, begin_day) for each in (at, at + 1))
            return first, until
        of_year = (year * 12 + month - begin_month - shift) // 12
        first, weeks = self._year_first(of_year), self._weeks(of_year)
        return first + weeks[place] * _WEEK, first + weeks[place + 1] * _WEEK

    @property
    def _year_start(self) -> tuple[int, int]:
        return int(self.year_start[:2]), int(self.year_start[3:])

    def _day_of(self, at_ms: int) -> date:
        """The day by its first hour: where clocks are put back over midnight, or midnight is no whole hour, not that of the clock."""
        day = self.local(at_ms).date()
        while self._instant(day) > at_ms:
            day -= _DAY
        while self._instant(day + _DAY) <= at_ms:
            day += _DAY
        return day

    def _instant(self, day: date) -> int:
        return _midnight_ms(self.zone, day)

    def _first(self, per: str, day: date) -> date:
        """The first day of the period that contains a day."""
        if per == "day":
            return day
        if per == "week":
            return day - (day.weekday() - WEEKDAYS.index(self.week_start)) % 7 * _DAY
        _, begin_day = self._year_start
        if not PATTERNS[self.months]:
            return _month_first(day, begin_day)
        year, place = self._place(day)
        return self._year_first(year) + self._weeks(year)[place] * _WEEK

    def _next(self, per: str, first: date) -> date:
        """The first day of the period after the one that begins on a day."""
        if per == "day":
            return first + _DAY
        if per == "week":
            return first + _WEEK
        if not PATTERNS[self.months]:
            return (first.replace(day=1) + 32 * _DAY).replace(day=first.day)
        year, place = self._place(first)
        return self._year_first(year) + self._weeks(year)[place + 1] * _WEEK

    def _place(self, day: date) -> tuple[int, int]:
        """The fiscal year of a day, and its month in it, from 0."""
        year = day.year + 1
        while self._year_first(year) > day:
            year -= 1
        return year, bisect_right(self._weeks(year), (day - self._year_first(year)) // _WEEK) - 1

    def _year_first(self, year: int) -> date:
        """The first day of a fiscal year of weeks: the start of a week nearest to the year's start."""
        anchor = date(year, *self._year_start)
        back = (anchor.weekday() - WEEKDAYS.index(self.week_start)) % 7
        return anchor - (back if back <= 3 else back - 7) * _DAY

    def _weeks(self, year: int) -> list[int]:
        """At how many weeks each month of a fiscal year of weeks begins, and where it ends: a 53rd week is of the last month."""
        weeks = list(accumulate([0, *PATTERNS[self.months] * 4]))
        weeks[-1] = (self._year_first(year + 1) - self._year_first(year)) // _WEEK
        return weeks


def month_named(text: str) -> date | None:
    """The first day of the month that a text such as 2026-10 names, from 1970 to 2099; None: it names none."""
    try:
        first = date.fromisoformat(f"{text}-01") if _MONTH.fullmatch(text) else None
    except ValueError:
        return None
    return first if first and 1970 <= first.year < 2100 else None


def _month_first(day: date, begin_day: int) -> date:
    if day.day >= begin_day:
        return day.replace(day=begin_day)
    return (day.replace(day=1) - _DAY).replace(day=begin_day)


@lru_cache(maxsize=50_000)
def _midnight_ms(zone: str, day: date) -> int:
    """The first whole hour of a day; of a midnight that clocks skip the instant at which they do."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=_zone(zone))
    at_ms = (midnight.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    return min(max(-(-at_ms // HOUR_MS) * HOUR_MS, 0), DATETIME_END_MS)


PLAIN: Final = Calendar()
