"""Budgets, judged the plain way: minute by minute, in integers, from what was used in each minute.

Must import nothing of the project. Amounts are (nano-dollars, thousandths of a GPU times ms, ms of run time); of a limit
None means that it is not limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from fractions import Fraction

MINUTE_MS = 60_000
HOUR_MS = 3_600_000
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
    inside = {minute: amounts for minute, amounts in spent.items() if at_ms - HOUR_MS <= minute < at_ms}
    if not inside:
        return [0, 0, 0]
    return [sum(each) * HOUR_MS // (at_ms - min(inside)) for each in zip(*inside.values(), strict=True)]


def forecast_told(
    spent: Mapping[int, Amounts],
    limits: Limits,
    per: str,
    from_ms: int,
    until_ms: int,
    deadline_ms: int | None = None,
    over_ms: int | None = None,
) -> list[tuple[int, int | None]]:
    """`budget_forecast`: (fired, over) at the whole minutes after `from_ms`.

    `deadline_ms`, `over_ms`: of a run. It fires while at the rate of the last hour a limit is used up before the end, and is
    over when less than 90 % would be, or one is used up.
    """
    told: list[tuple[int, int | None]] = []
    used, fired_ms = [0, 0, 0], None
    end_ms = deadline_ms if per == "run" else period_end(per, from_ms)
    for at_ms in range(from_ms + MINUTE_MS, until_ms + 1, MINUTE_MS):
        if end_ms is None or (per == "run" and at_ms > end_ms):
            break
        used = [a + b for a, b in zip(used, spent.get(at_ms - MINUTE_MS, (0, 0, 0)), strict=True)]
        is_over = over_ms is not None and at_ms >= over_ms
        fired_ms = _step(spent, limits, at_ms, end_ms, used, is_over, fired_ms, told)
        if per != "run" and at_ms >= end_ms:
            told += [] if fired_ms is None else [(fired_ms, end_ms)]
            used, end_ms = [0, 0, 0], period_end(per, end_ms)
            assert end_ms is not None
            # This minute is the first one of the next period, too.
            fired_ms = _step(spent, limits, at_ms, end_ms, used, is_over, None, told)
    if fired_ms is None:
        return told
    return [*told, (fired_ms, end_ms if end_ms is not None and end_ms <= until_ms else None)]


def _step(
    spent: Mapping[int, Amounts],
    limits: Limits,
    at_ms: int,
    end_ms: int,
    used: Amounts,
    is_over: bool,
    fired_ms: int | None,
    told: list[tuple[int, int | None]],
) -> int | None:
    """Judge one minute: since when it fires after it. `is_over`: the run is."""
    rates = rate_per_hour(spent, at_ms)
    pairs = [(a, r, limit) for a, r, limit in zip(used, rates, limits, strict=True) if limit is not None]
    would = [(a + Fraction(r * (end_ms - at_ms), HOUR_MS), r, limit) for a, r, limit in pairs]
    is_used_up = any(a >= limit for a, _, limit in pairs)
    holds = any(total >= limit and rate > 0 for total, rate, limit in would)
    clears = all(total < Fraction(9, 10) * limit for total, _, limit in would)
    if fired_ms is None:
        return at_ms if holds and not is_used_up and not is_over else None
    if clears or is_used_up or is_over:
        told.append((fired_ms, at_ms))
        return None
    return fired_ms
