"""Months and days of bills are those of UTC: says so where the calendar of the settings has others."""

from __future__ import annotations

import sys
from datetime import timedelta
from typing import Final

from streams.calendar import PLAIN, UTC_ZONE, Calendar, month_named

_DAY: Final = timedelta(days=1)


def say_utc_month(month: str, calendar: Calendar) -> None:
    """Say on stderr that a month is that of UTC, and how to ask for the calendar's month of that name, unless both are the same."""
    named = month_named(month)
    if named is None:
        return
    (first, until), own = (of.named_month(named.year, named.month) for of in (PLAIN, calendar))
    if [PLAIN.instant_of(day) for day in (first, until)] == [calendar.instant_of(day) for day in own]:
        return
    sys.stderr.write(
        f"trainfare: {month} is the month of UTC here, as on bills. `trainfare costs --month {month}` shows the month of your "
        f"calendar: {own[0]} to {own[1] - _DAY} in {calendar.zone}.\n"
    )


def say_utc_days(month: str, calendar: Calendar) -> None:
    """Say on stderr that a month, or without one days, are those of UTC, unless those of the calendar are the same."""
    if month:
        say_utc_month(month, calendar)
    elif calendar.zone != UTC_ZONE:
        sys.stderr.write(
            f"trainfare: days are those of UTC, as days of bills are, not those of {calendar.zone}\n"
        )
