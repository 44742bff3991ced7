"""`budget_forecast`: at the rate of the last hour a budget is used up before its period or the job's deadline ends.

What is used and which alerts fire is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import FIRING
from streams.engine.ledger_rules.budget_used import Last, Minutes, over_ms
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts, Usage, limits_of
from streams.engine.rules.budget_forecast import BUDGET_FORECAST

#: It clears when less than this share would be used at the end.
_CLEAR_RATIO: Final = 0.9


def judge_forecast(
    subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last
) -> Iterator[BudgetFinding]:
    """Yield the changes at these minutes, in order; `last`: the last row of an alert.

    The first hour after `usage.from_ms` has no rate of a whole hour and is not judged.
    """
    first_ms = usage.from_ms + HOUR_MS
    if minutes.since_ms is not None:
        first_ms = max(first_ms, minutes.since_ms + MINUTE_MS)
    for period in periods(subject.budget.per, min(first_ms, minutes.until_ms), minutes.until_ms):
        ends_ms = _ends_ms(subject, period)
        last_ms = minutes.until_ms if ends_ms is None else min(minutes.until_ms, ends_ms)
        at_ms = np.arange(max(first_ms, period.start_ms), last_ms + 1, MINUTE_MS, dtype=np.int64)
        if ends_ms is not None:
            yield from _judge(subject, usage, period, ends_ms, at_ms, last, minutes)


def _ends_ms(subject: BudgetSubject, period: CalendarPeriod) -> int | None:
    return period.end_ms if subject.run is None else subject.run.deadline_ms


def _judge(
    subject: BudgetSubject,
    usage: Usage,
    period: CalendarPeriod,
    ends_ms: int,
    at_ms: NDArray[np.int64],
    last: Last,
    minutes: Minutes,
) -> Iterator[BudgetFinding]:
    row = last(budget_alert_id(BUDGET_FORECAST, subject, 0, period))
    fires = row is not None and row.status == FIRING
    holds, clears = _held(subject, usage, period, ends_ms, at_ms)
    over = over_ms(subject, period)
    if over is not None:
        holds &= at_ms < over
        clears |= at_ms >= over
    # A new owner looks at minutes that a former one has judged: an alert changes after its last change alone.
    place = 0 if row is None else int(np.searchsorted(at_ms, row.changed_ms, "right"))
    while True:
        found = np.flatnonzero((clears if fires else holds)[place:])
        if not len(found):
            break
        place += int(found[0])
        fires = not fires
        yield _finding(subject, usage, period, ends_ms, int(at_ms[place]), fires=fires)
        place += 1
    if fires and ends_ms <= minutes.until_ms:
        over_at_ms = ends_ms if row is None else max(ends_ms, row.changed_ms + 1)
        yield _finding(subject, usage, period, ends_ms, over_at_ms, fires=False)


def _held(
    subject: BudgetSubject, usage: Usage, period: CalendarPeriod, ends_ms: int, at_ms: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether it would be used up in time, and whether an open alert clears, at each instant."""
    holds, clears = np.zeros(len(at_ms), np.bool_), np.ones(len(at_ms), np.bool_)
    is_used_up = np.zeros(len(at_ms), np.bool_)
    used, per_hour = usage.used(period, at_ms), usage.per_hour(at_ms)
    left_h = np.maximum(ends_ms - at_ms, 0) / HOUR_MS
    for amount, rate, limit in zip(used, per_hour, limits_of(subject.budget.limits), strict=True):
        if limit is None:
            continue
        projected = amount + rate * left_h
        holds |= (projected >= limit) & (rate > 0)
        clears &= projected < _CLEAR_RATIO * limit
        is_used_up |= amount >= limit
    return holds & ~is_used_up, clears | is_used_up


def exhausted_in_ms(used: Amounts, per_hour: Amounts, subject: BudgetSubject) -> int | None:
    """Return in how many ms the first limit is used up at that rate; None: never, at 0 it is used up."""
    found = [
        max(limit - amount, 0) * HOUR_MS // rate
        for amount, rate, limit in zip(used, per_hour, limits_of(subject.budget.limits), strict=True)
        if limit is not None and rate > 0
    ]
    return min(found, default=None)


def _finding(
    subject: BudgetSubject, usage: Usage, period: CalendarPeriod, ends_ms: int, at_ms: int, *, fires: bool
) -> BudgetFinding:
    at_minute_ms = at_ms // MINUTE_MS * MINUTE_MS
    return BudgetFinding(
        BUDGET_FORECAST,
        0,
        subject,
        period,
        at_ms,
        fires,
        usage.used_at(period, at_minute_ms),
        usage.per_hour_at(at_minute_ms),
        ends_ms,
    )
