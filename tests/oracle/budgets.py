"""Budgets, judged the plain way: minute by minute, in integers, from what was spent in each minute.

A threshold is reached at the first whole minute at which so many percent of the limit are used in its period. One that is
reached at the same minute as a higher one is not told. What fires is over with its period.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

MINUTE_MS = 60_000
PERCENTS = (50, 80, 100)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

#: (percent, minute at which it fired, minute at which it was over or None).
Told = tuple[int, int, int | None]


def period_end(per: str, at_ms: int) -> int | None:
    """The end of the day, week or month of UTC that an instant lies in."""
    at = EPOCH + timedelta(milliseconds=at_ms)
    day = at.replace(hour=0, minute=0, second=0, microsecond=0)
    if per == "day":
        end = day + timedelta(days=1)
    elif per == "week":
        end = day - timedelta(days=day.weekday()) + timedelta(days=7)
    elif per == "month":
        end = (day.replace(day=1) + timedelta(days=32)).replace(day=1)
    else:
        return None
    return (end - EPOCH) // timedelta(milliseconds=1)


def budget_told(
    spent: Mapping[int, int], limit: int, per: str, from_ms: int, until_ms: int, before: int = 0
) -> list[Told]:
    """What is told at the whole minutes after `from_ms` up to `until_ms`; `before`: used in the period until then."""
    used, end_ms = before, period_end(per, from_ms)
    firing: dict[int, int] = {}
    reached: set[int] = set()
    told: list[Told] = []
    for at_ms in range(from_ms + MINUTE_MS, until_ms + 1, MINUTE_MS):
        used += spent.get(at_ms - MINUTE_MS, 0)
        now = [percent for percent in PERCENTS if used * 100 >= limit * percent and percent not in reached]
        reached |= set(now)
        if now:
            firing[max(now)] = at_ms
        if end_ms is not None and at_ms >= end_ms:
            told += [(percent, fired_ms, end_ms) for percent, fired_ms in firing.items()]
            used, firing, reached, end_ms = 0, {}, set(), period_end(per, end_ms)
    return sorted([*told, *_open(firing.items())], key=lambda each: (each[1], each[0]))


def _open(firing: Iterable[tuple[int, int]]) -> list[Told]:
    return [(percent, fired_ms, None) for percent, fired_ms in firing]
