"""Budgets, judged the plain way: minute by minute, in integers, from what was used in each minute.

Must import nothing of the project. Amounts are (nano-dollars, thousandths of a GPU times ms, ms of run time); of a limit
None means that it is not limited.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
DAY_MS = 86_400_000
PERCENTS = (50, 80, 100)
NEXT_ATTEMPT_MS = 600_000  # "after `failed` and `preempted` when no next attempt came for 10 min"
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Amounts = Sequence[int]
Limits = Sequence[int | None]
#: (percent, minute at which it fired, when it was over or None).
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


def run_over_ms(state: str, ended_ms: int | None) -> int | None:
    """When a run is over: at its end, or when no next attempt came."""
    if ended_ms is None:
        return None
    return ended_ms if state in ("completed", "cancelled") else ended_ms + NEXT_ATTEMPT_MS


def reached(used: Amounts, limits: Limits, percent: int) -> bool:
    """Whether so much of any limit is used."""
    return any(
        limit is not None and amount * 100 >= limit * percent
        for amount, limit in zip(used, limits, strict=True)
    )


def budget_told(
    spent: Mapping[int, Amounts],
    limits: Limits,
    per: str,
    from_ms: int,
    until_ms: int,
    before: Amounts = (0, 0, 0),
    over_ms: int | None = None,
) -> list[Told]:
    """`budget_used` at the whole minutes after `from_ms` up to `until_ms`.

    A threshold is told at the first minute at which it is reached, one that is reached with a higher one is not.
    `before`: used in the period until `from_ms`. `over_ms`: when the run is over.
    """
    used, end_ms = list(before), period_end(per, from_ms)
    firing: dict[int, int] = {}
    passed: set[int] = set()
    told: list[Told] = []
    for at_ms in range(from_ms + MINUTE_MS, until_ms + 1, MINUTE_MS):
        if over_ms is not None and at_ms > over_ms:
            break
        used = [a + b for a, b in zip(used, spent.get(at_ms - MINUTE_MS, (0, 0, 0)), strict=True)]
        now = [percent for percent in PERCENTS if reached(used, limits, percent) and percent not in passed]
        passed |= set(now)
        if now:
            firing[max(now)] = at_ms
            lower = [percent for percent in firing if percent < max(now)]  # "gives way to a higher one"
            told += [(percent, firing.pop(percent), at_ms) for percent in lower]
        if end_ms is not None and at_ms >= end_ms:
            told += [(percent, fired_ms, max(end_ms, fired_ms + 1)) for percent, fired_ms in firing.items()]
            used, firing, passed, end_ms = [0, 0, 0], {}, set(), period_end(per, end_ms)
    if over_ms is not None and over_ms <= until_ms:
        told += [(percent, at_ms, max(over_ms, at_ms + 1)) for percent, at_ms in firing.items()]
        return sorted(told)
    return sorted([*told, *_open(firing.items())], key=lambda each: (each[1], each[0]))


def _open(firing: Iterable[tuple[int, int]]) -> list[Told]:
    return [(percent, fired_ms, None) for percent, fired_ms in firing]


def rate_per_hour(spent: Mapping[int, Amounts], at_ms: int) -> list[int]:
    """ "the rate of the last hour, or of the time since the first use in it" """
    minutes = range((at_ms - HOUR_MS + MINUTE_MS - 1) // MINUTE_MS * MINUTE_MS, at_ms, MINUTE_MS)
    inside = {minute: spent[minute] for minute in minutes if minute in spent}
    if not inside:
        return [0, 0, 0]
    return [sum(each) * HOUR_MS // (at_ms - min(inside)) for each in zip(*inside.values(), strict=True)]


def begins_ms(per: str, end_ms: int) -> int:
    """The beginning of the day, week or month that ends then."""
    if per == "day":
        return end_ms - DAY_MS
    if per == "week":
        return end_ms - 7 * DAY_MS
    last = EPOCH + timedelta(milliseconds=end_ms) - timedelta(days=1)
    return (last.replace(day=1) - EPOCH) // timedelta(milliseconds=1)


def is_weekend(hour_ms: int) -> bool:
    """Saturday or Sunday, UTC."""
    return (hour_ms // DAY_MS + 3) % 7 >= 5  # 1970-01-01 was a Thursday


class LikeHours:
    """What hours to come are to use, as seen from the hours before: by amount, rounded down; None: nobody knows."""

    def __init__(self, spent: Mapping[int, Amounts], clock_ms: Callable[[int], int] = int) -> None:
        """`clock_ms`: an hour by the clock of the budget's zone, as if that were UTC."""
        self.clock_ms = clock_ms
        self.hours: dict[int, list[int]] = {}
        for minute_ms, amounts in spent.items():
            of_hour = self.hours.setdefault(minute_ms // HOUR_MS * HOUR_MS, [0, 0, 0])
            for at, amount in enumerate(amounts):
                of_hour[at] += amount
        self.seen: dict[int, dict[tuple[bool, int], list[int] | None]] = {}
        self.sums: dict[tuple[int, int], list[int]] = {}

    def to_come(self, now_ms: int, hour_ms: int) -> list[int] | None:
        """What an hour is to use, seen from within the hour that begins at `now_ms`."""
        if now_ms not in self.seen:
            self.seen[now_ms] = self._look(now_ms)
        return self.seen[now_ms][self._like(hour_ms)]

    def later(self, now_ms: int, end_ms: int) -> list[int]:
        """What all hours after that one are to use, as far as anybody knows."""
        if (now_ms, end_ms) not in self.sums:
            found = [self.to_come(now_ms, each) for each in range(now_ms + HOUR_MS, end_ms, HOUR_MS)]
            known = [each for each in found if each is not None]
            self.sums[now_ms, end_ms] = [sum(each) for each in zip(*known, strict=True)] or [0, 0, 0]
        return self.sums[now_ms, end_ms]

    def _like(self, hour_ms: int) -> tuple[bool, int]:
        clock_ms = self.clock_ms(hour_ms)
        return is_weekend(clock_ms), clock_ms // HOUR_MS % 24

    def _look(self, now_ms: int) -> dict[tuple[bool, int], list[int] | None]:
        """ "the last seven known hours", "known from the first use in the 28 days before" """
        since_ms = now_ms // DAY_MS * DAY_MS - 28 * DAY_MS
        used = [at_ms for at_ms, amounts in self.hours.items() if since_ms <= at_ms < now_ms and any(amounts)]
        like: dict[tuple[bool, int], list[list[int]]] = {}
        for hour_ms in range(now_ms - HOUR_MS, min(used, default=now_ms) - 1, -HOUR_MS):
            of_sort = like.setdefault(self._like(hour_ms), [])
            if len(of_sort) < 7:
                of_sort.append(self.hours.get(hour_ms, [0, 0, 0]))
        means = {
            which: [sum(each) // len(amounts) for each in zip(*amounts, strict=True)]
            for which, amounts in like.items()
        }
        found: dict[tuple[bool, int], list[int] | None] = {}
        for sort in (False, True):
            other = [means[not sort, hour] for hour in range(24) if (not sort, hour) in means]
            least = [min(each) for each in zip(*other, strict=True)] if len(other) == 24 else None
            found |= {(sort, hour): means.get((sort, hour), least) for hour in range(24)}
        return found


def would_use(
    spent: Mapping[int, Amounts], like: LikeHours, used: Amounts, per: str, at_ms: int, end_ms: int
) -> list[int]:
    """What is used at the end: of a run at the rate of the last hour, else as like hours say.

    What nobody knows goes on for a day as now.
    """
    rates = rate_per_hour(spent, at_ms)
    if per == "run":
        return [a + rate * max(end_ms - at_ms, 0) // HOUR_MS for a, rate in zip(used, rates, strict=True)]
    now_ms = at_ms // HOUR_MS * HOUR_MS
    if now_ms >= end_ms:
        return list(used)
    found, unknown = [a + b for a, b in zip(used, like.later(now_ms, end_ms), strict=True)], 0
    here = like.to_come(now_ms, now_ms)
    if here is not None:
        found = [
            a + each * (now_ms + HOUR_MS - at_ms) // HOUR_MS for a, each in zip(found, here, strict=True)
        ]
    for hour_ms in range(now_ms, min(end_ms, at_ms + DAY_MS), HOUR_MS):
        if like.to_come(now_ms, hour_ms) is None:
            until_ms = min(hour_ms + HOUR_MS, at_ms + DAY_MS)
            unknown += (until_ms - max(hour_ms, at_ms)) // MINUTE_MS
    return [a + rate * unknown // 60 for a, rate in zip(found, rates, strict=True)]


def forecast_told(
    spent: Mapping[int, Amounts],
    limits: Limits,
    per: str,
    from_ms: int,
    until_ms: int,
    deadline_ms: int | None = None,
    over_ms: int | None = None,
    started_ms: int | None = None,
    before: Amounts = (0, 0, 0),
) -> list[tuple[int, int | None]]:
    """`budget_forecast`: (fired, over) at the whole minutes after `from_ms`.

    `deadline_ms`, `over_ms`, `started_ms`: of a run; `before`: used in the period until `from_ms`. It fires while more than a limit would be used at the end, from 5 % of the
    period and of the limit on, and is over when no more than 1/1.2 of each would be, or one is used up; not again for a day.
    """
    told: list[tuple[int, int | None]] = []
    like = LikeHours(spent)
    used, fired_ms = list(before), None
    end_ms = deadline_ms if per == "run" else period_end(per, from_ms)
    if end_ms is None:
        return told
    begin_ms = started_ms if per == "run" else begins_ms(per, end_ms)
    for at_ms in range(from_ms + MINUTE_MS, until_ms + 1, MINUTE_MS):
        if per == "run" and at_ms > end_ms:
            break
        used = [a + b for a, b in zip(used, spent.get(at_ms - MINUTE_MS, (0, 0, 0)), strict=True)]
        is_over = over_ms is not None and at_ms >= over_ms
        period = (per, begin_ms, end_ms)
        fired_ms = _step(spent, like, limits, at_ms, period, used, is_over, fired_ms, told)
        if per != "run" and at_ms >= end_ms:
            told += [] if fired_ms is None else [(fired_ms, end_ms)]
            used, begin_ms, end_ms = [0, 0, 0], end_ms, period_end(per, end_ms)
            assert end_ms is not None
            # This minute is the first one of the next period, too: nothing is used in it.
            fired_ms = None
    if fired_ms is None:
        return told
    return [*told, (fired_ms, end_ms if end_ms <= until_ms else None)]


def _step(
    spent: Mapping[int, Amounts],
    like: LikeHours,
    limits: Limits,
    at_ms: int,
    period: tuple[str, int | None, int],
    used: Amounts,
    is_over: bool,
    fired_ms: int | None,
    told: list[tuple[int, int | None]],
) -> int | None:
    """Judge one minute: since when it fires after it. `is_over`: the run is."""
    per, begin_ms, end_ms = period
    pairs = [(a, limit) for a, limit in zip(used, limits, strict=True) if limit is not None]
    is_used_up = any(a >= limit for a, limit in pairs)
    if fired_ms is not None and (is_over or is_used_up):
        told.append((fired_ms, at_ms))
        return None
    is_early = begin_ms is not None and 20 * (at_ms - begin_ms) < end_ms - begin_ms
    last_over_ms = max(
        (over for _, over in told if over is not None and over > (begin_ms or 0)), default=None
    )
    is_again = last_over_ms is not None and at_ms < last_over_ms + DAY_MS
    begun = [20 * a >= limit for a, limit in pairs]
    if fired_ms is None and (is_over or is_used_up or is_early or is_again or not any(begun)):
        return None
    would = would_use(spent, like, used, per, at_ms, end_ms)
    totals = [(total, limit) for total, limit in zip(would, limits, strict=True) if limit is not None]
    if fired_ms is None:
        holds = any(
            is_begun and total > limit for is_begun, (total, limit) in zip(begun, totals, strict=True)
        )
        return at_ms if holds else None
    if all(6 * total <= 5 * limit for total, limit in totals):
        told.append((fired_ms, at_ms))
        return None
    return fired_ms
