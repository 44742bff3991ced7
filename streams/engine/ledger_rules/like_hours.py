"""What a subject is to use in the hours to come, from what it used in the hours that are like them.

Like hours are the same hour of the day, by the clock of the budget's zone, on days of the same sort, weekdays or weekend days: the
last seven whole ones that are known. Hours are known from the subject's first use in the four weeks before. Where no like hour is known, the
least hour of the other sort counts once all its 24 are known: what never rests goes on. Before that what is paid now goes
on for a day at most.
"""

from __future__ import annotations

from datetime import timedelta
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.calendar import PLAIN, UTC_ZONE, Calendar
from streams.engine.ledger_rules.usage import Usage

_HOURS: Final = DAY_MS // HOUR_MS
_DAYS_BACK: Final = 28
_LIKE_DAYS: Final = 7
_SORTS: Final = 2  # weekdays, weekend days
#: More an hour than anybody pays: sums over a month stay within 64 bits.
_MOST_PER_HOUR: Final = 6 * 10**15


def history_from_ms(at_ms: int) -> int:
    """The first hour that a forecast at an instant looks at."""
    return max(at_ms // DAY_MS - _DAYS_BACK, 0) * DAY_MS


def _clock_hours(hours_ms: NDArray[np.int64], zone: str) -> NDArray[np.int64]:
    """Which of the like hours each of these whole hours is, by the clock of a zone: 24 of weekdays, then 24 of weekend days."""
    hours = hours_ms // HOUR_MS
    if zone != UTC_ZONE:
        days, place = np.unique(hours // _HOURS, return_inverse=True)
        ahead = np.array([_hours_ahead(zone, int(day)) for day in days], np.int64).reshape(-1, _HOURS)
        hours = hours + ahead[place, hours % _HOURS]
    is_weekend = (hours // _HOURS + 3) % 7 >= 5  # 1970-01-01 was a Thursday
    return np.asarray(_HOURS * is_weekend + hours % _HOURS, np.int64)


@lru_cache(maxsize=4096)
def _hours_ahead(zone: str, day: int) -> tuple[int, ...]:
    """By how many whole hours the clock of a zone is ahead of UTC at each hour of a day of UTC."""
    calendar, hour = Calendar(zone), timedelta(hours=1)
    offsets = (calendar.local(day * DAY_MS + each * HOUR_MS).utcoffset() for each in range(_HOURS))
    return tuple(0 if offset is None else offset // hour for offset in offsets)


class Outlook(NamedTuple):
    """What is to be used from instants within one hour on, until the end."""

    hour_ms: int
    ends_ms: int
    here: NDArray[np.int64]  # [3] in this hour, if it were whole
    to_come: NDArray[np.int64]  # [3, n] in each later hour
    is_unknown: NDArray[
        np.bool_
    ]  # [1 + n] hours in which what is paid now goes on; the first one is this hour

    def until_end(self, at_ms: NDArray[np.int64], per_hour: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is to be used after each of these whole minutes of the hour, [3, len(at_ms)]; `per_hour`: what is paid then."""
        passed = (at_ms - self.hour_ms) // MINUTE_MS
        known = self.to_come.sum(axis=1)[:, None] + self.here[:, None] * (60 - passed) // 60
        return np.asarray(known + np.minimum(per_hour, _MOST_PER_HOUR) * self._unknown_minutes(passed) // 60)

    def _unknown_minutes(self, passed: NDArray[np.int64]) -> NDArray[np.int64]:
        """Minutes of the next 24 hours about which nothing is known."""
        first = self.is_unknown[:_HOURS]
        whole = int(np.count_nonzero(first[1:])) * 60
        last = 60 if len(self.is_unknown) > _HOURS and self.is_unknown[_HOURS] else 0
        return np.asarray(whole + (60 - passed) * int(first[0]) + passed * last // 60)

    def used_up_ms(self, at_ms: int, left: tuple[int | None, ...], per_hour: tuple[int, ...]) -> int | None:
        """The whole minute at which the first of what is `left` is used; None: none is until the end."""
        minutes = [60 - (at_ms - self.hour_ms) // MINUTE_MS, *[60] * (self.to_come.shape[1])]
        unknown_left = DAY_MS // MINUTE_MS
        found: list[int] = []
        for place, most in enumerate(left):
            if most is None:
                continue
            rest, unknown, passed = most, unknown_left, 0
            for hour, length in enumerate(minutes):
                rate = int(self.here[place] if hour == 0 else self.to_come[place, hour - 1])
                if self.is_unknown[hour]:
                    whole = min(unknown, length)
                    used, rate = per_hour[place] * whole // 60, per_hour[place]
                else:
                    used = rate * length // 60
                unknown -= min(unknown, length)
                if rest <= used and rate > 0:
                    found.append(at_ms + (passed + -(-rest * 60 // rate)) * MINUTE_MS)
                    break
                rest, passed = rest - used, passed + length
        return min(found, default=None)


def outlook(usage: Usage, hour_ms: int, ends_ms: int, calendar: Calendar = PLAIN) -> Outlook:
    """Look from an hour on to the end of a period, a whole hour; `usage` has the hours of four weeks before."""
    first_ms = history_from_ms(hour_ms)
    before = _clock_hours(np.arange(first_ms, hour_ms, HOUR_MS, dtype=np.int64), calendar.zone)
    per_hour, is_known = _like_hours(usage.by_hour(first_ms, hour_ms), before)
    to_come = _clock_hours(np.arange(hour_ms, ends_ms, HOUR_MS, dtype=np.int64), calendar.zone)
    rates = per_hour[:, to_come]
    return Outlook(hour_ms, ends_ms, rates[:, 0], rates[:, 1:], ~is_known[to_come])


def _like_hours(
    by_hour: NDArray[np.int64], like: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The mean of the like hours, [3, 48], rounded down, and of which any is known, [48].

    `by_hour`: [3, n], whole hours that are over, in order. `like`: [n], which of the 48 each is.
    """
    any_use = np.flatnonzero(by_hour.any(axis=0))
    first = int(any_use[0]) if len(any_use) else len(like)
    used, of = by_hour[:, first:][:, ::-1], like[first:][::-1]  # the last hour first
    order = np.argsort(of, kind="stable")
    used, of = used[:, order], of[order]
    begins = np.searchsorted(of, np.arange(_SORTS * _HOURS))
    is_counted = np.arange(len(of)) - begins[of] < _LIKE_DAYS
    sums = np.concatenate([np.zeros((3, 1), np.int64), np.cumsum(used * is_counted, axis=1)], axis=1)
    ends = np.append(begins[1:], len(of))
    counts = np.minimum(ends - begins, _LIKE_DAYS)
    means = (sums[:, ends] - sums[:, begins]) // np.maximum(counts, 1)
    per_hour = np.minimum(means, _MOST_PER_HOUR).reshape(3, _SORTS, _HOURS)
    is_known = np.greater(counts, 0).reshape(_SORTS, _HOURS)
    for sort in range(_SORTS):
        other = 1 - sort
        if is_known[other].all() and not is_known[sort].all():
            least = per_hour[:, other].min(axis=1)
            per_hour[:, sort] = np.where(is_known[sort], per_hour[:, sort], least[:, None])
    is_whole = np.asarray(is_known.all(axis=1))[::-1]
    return per_hour.reshape(3, -1), np.asarray(is_known | is_whole[:, None]).reshape(-1)
