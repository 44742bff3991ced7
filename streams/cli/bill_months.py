"""Months and days of bills are those of UTC: says so where the calendar of the settings has others."""

from __future__ import annotations

import sys

from streams.calendar import PLAIN, UTC_ZONE, Calendar, month_named


def say_utc_month(month: str, calendar: Calendar) -> None:
    """Say on stderr from when to when a month is charged, unless the calendar's month of that name is the same."""
    named = month_named(month)
    if named is None:
        return
    bounds = [
        [calendar.iso(of.instant_of(day)) for day in of.named_month(named.year, named.month)]
        for of in (PLAIN, calendar)
    ]
    if bounds[0] == bounds[1]:
        return
    (first, until), (own_first, own_until) = bounds
    sys.stderr.write(
        f"trainfare: {month} is the month of UTC, as months of bills are: from {first} to {until}; by the calendar of the "
        f"settings it is from {own_first} to {own_until}, and `trainfare costs --month {month}` says what was metered then\n"
    )


def say_utc_days(month: str, calendar: Calendar) -> None:
    """Say on stderr that a month, or without one days, are those of UTC, unless those of the calendar are the same."""
    if month:
        say_utc_month(month, calendar)
    elif calendar.zone != UTC_ZONE:
        sys.stderr.write(
            f"trainfare: days are those of UTC, as days of bills are, not those of {calendar.zone}\n"
        )
