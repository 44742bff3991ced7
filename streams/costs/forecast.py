"""What is left of a month will cost, by hours: season, level, jobs that run, and an interval of 80 % from earlier misses.

It computes no cost of a job: it adds hours that the meter has booked. Amounts are floats, for what is to come is not exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Hours = NDArray[np.float64]

DAY_H: Final = 24
#: What is looked at: eight weeks have each hour of each weekday eight times.
HISTORY_H: Final = 56 * DAY_H
#: A day of so many days ago counts half as much.
_HALF_LIFE_D: Final = 14.0
#: Without a whole day nothing is forecast.
LEAST_H: Final = DAY_H
#: By how much the range grows with the length of what is to come: errors of days are neither alike nor independent.
_POWER: Final = 0.75
#: The least spread of a day, as a share of its mean.
_SPREAD_MIN: Final = 0.1
#: Fewer days than these do not say by how much days differ: the least spread is this share of their mean, by the root of their number.
_FEW_DAYS: Final = 8
_SPREAD_OF_FEW: Final = 2.5
#: Above, where the rare dear day lies that few days have not seen, it is more, and falls more slowly with their number.
_SPREAD_ABOVE: Final = 3.2
_POWER_ABOVE: Final = 0.45
#: Earlier forecasts are made from so many hours on, over so many days at least.
_TRIED_FROM_H: Final = 4 * DAY_H
_TRIED_DAYS: Final = 3
#: Fewer misses than these say nothing.
_MISSES_MIN: Final = 40
#: The range is never narrower: of a past of under four weeks, in which earlier misses are of few days, and of a longer one (docs/forecast.md).
_NARROWEST: Final = (-1.6, 2.0)
_NARROWEST_LATER: Final = (-1.2, 1.5)
_LATER_H: Final = 28 * DAY_H
_SHARE: Final = 0.8
#: A job that runs goes on for so long where no job that ended says how long jobs last.
USUAL_LEFT_H: Final = 24.0


class Rest(NamedTuple):
    """What the hours to come cost: expected, and the ends of the range."""

    expected: float
    low: float
    high: float


def expected_hours(past: Hours, first_hour: int, count: int, left_h: float = USUAL_LEFT_H) -> Hours:
    """What each of the next hours will cost.

    Args:
        past: What the hours before cost, the newest last.
        first_hour: The hour since 1970 (by the clock of the calendar) of the first hour to come.
        count: How many hours are to come.
        left_h: For how long jobs that run go on, in the median: so long a level that differs from the usual one lasts.
    """
    past = past[-HISTORY_H:]
    hours = first_hour - len(past) + np.arange(len(past))
    weights = 0.5 ** ((len(past) - 1 - np.arange(len(past))) / DAY_H / _HALF_LIFE_D)
    level = float(np.average(past, weights=weights))
    season = _season(past, hours, weights, level)
    coming = first_hour + np.arange(count)
    usual = level * season[_cells(coming)]
    last = past[-DAY_H:]
    now = float(last.mean()) - float((level * season[_cells(hours[-DAY_H:])]).mean())
    decay = np.exp(-(np.arange(count) + 0.5) / max(left_h, 1.0))
    return np.asarray(np.maximum(usual + now * decay, 0.0))


def _cells(hours: NDArray[np.int64]) -> NDArray[np.int64]:
    """The cell of the season: hour of the day, on weekdays and at weekends apart."""
    weekday = (hours // DAY_H + 3) % 7  # 1970-01-01 was a Thursday
    return np.asarray(hours % DAY_H + DAY_H * (weekday >= 5))


def _season(past: Hours, hours: NDArray[np.int64], weights: Hours, level: float) -> Hours:
    """The share of the level that an hour of each cell costs; few hours of a cell are drawn to 1."""
    found = np.ones(2 * DAY_H)
    if level <= 0:
        return found
    cells = _cells(hours)
    sums = np.bincount(cells, weights * past, 2 * DAY_H)
    counts = np.bincount(cells, weights, 2 * DAY_H)
    shrunk = 2.0  # as two more hours of the mean
    return np.asarray((sums + shrunk * level) / (counts + shrunk) / level)


def spread(past: Hours) -> float:
    """By how much days differ: the standard deviation of the last four weeks of days, a share of their mean at least.

    Who cost nothing in these weeks, and something before, is not certain: there it is that of all days that make the level.
    """
    whole = past[len(past) % DAY_H :][-28 * DAY_H :]
    if not whole.any() and len(past):
        past = past[-HISTORY_H:]
        whole = np.pad(past, (-len(past) % DAY_H, 0))
    days = whole.reshape(-1, DAY_H).sum(axis=1)
    return max(float(days.std()), _SPREAD_MIN * float(days.mean())) if len(days) else 0.0


def _least_spreads_of_few(past: Hours) -> tuple[float, float]:
    """The least spread of few days, below and above what is expected."""
    days = len(past) // DAY_H
    if not 0 < days < _FEW_DAYS:
        return 0.0, 0.0
    mean = DAY_H * float(past.mean())
    return _SPREAD_OF_FEW * mean / days**0.5, _SPREAD_ABOVE * mean / days**_POWER_ABOVE


def misses(past: Hours, first_hour: int, days: int, left_h: float = USUAL_LEFT_H) -> list[float]:
    """How far forecasts of so many days, or of fewer where the past is short, would have been off, in spreads."""
    found = []
    newest = len(past)
    for origin in range(newest - _TRIED_DAYS * DAY_H, _TRIED_FROM_H - 1, -DAY_H):
        count = min(days * DAY_H, newest - origin)
        before = past[max(origin - HISTORY_H, 0) : origin]
        size = spread(before)
        if size <= 0:
            continue
        begin = first_hour - newest + origin
        expected = float(expected_hours(before, begin, count, left_h).sum())
        actual = float(past[origin : origin + count].sum())
        found.append((actual - expected) / (size * (count / DAY_H) ** _POWER))
    return found


def bounds_of(scores: Sequence[float], past_h: int) -> tuple[float, float]:
    """Between which misses 80 % of them lie, as all subjects together had them; `past_h`: how many hours are known."""
    least, most = _NARROWEST if past_h < _LATER_H else _NARROWEST_LATER
    if len(scores) < _MISSES_MIN:
        return least, most
    tail = (1 - _SHARE) / 2
    low, high = np.quantile(np.asarray(scores), [tail, 1 - tail])
    return min(float(low), least), max(float(high), most)


def rest_of(
    past: Hours, first_hour: int, count: int, bounds: tuple[float, float], left_h: float = USUAL_LEFT_H
) -> Rest:
    """What the next hours will cost, with its range."""
    if count <= 0:
        return Rest(0.0, 0.0, 0.0)
    expected = float(expected_hours(past, first_hour, count, left_h).sum())
    known, grown = spread(past), (count / DAY_H) ** _POWER
    sizes = (max(known, least) * grown for least in _least_spreads_of_few(past))
    low, high = (max(expected + bound * size, 0.0) for bound, size in zip(bounds, sizes, strict=True))
    return Rest(expected, min(low, expected), max(high, expected))


def within(rest: Rest, of_all: Rest) -> Rest:
    """A subject's range, cut where that of all subjects together ends: no subject costs more than all of them."""
    return rest._replace(high=max(min(rest.high, of_all.high), rest.expected))
