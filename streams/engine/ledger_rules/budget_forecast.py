"""`budget_forecast`: a budget is to be used up before its period or the job's deadline ends.

What comes is forecast from like hours, of a run by its rate of the last hour. What is used and which alerts fire is handed in.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import FIRING
from streams.engine.ledger_rules.budget_used import Last, Minutes, over_ms
from streams.engine.ledger_rules.exhaustion import exhausted_in_ms, to_come
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Usage, limits_of
from streams.engine.rules.budget_forecast import BUDGET_FORECAST

#: Nothing is forecast before a 20th of the period is over, and a 20th of the limit is used.
_PART: Final = 20
#: It clears once no more than 5 sixths of the limit would be used: the limit / 1.2.
_CLEARS: Final = (5, 6)
#: Once it is over, the next message comes so much later at the earliest.
_AGAIN_MS: Final = DAY_MS


def judge_forecast(
    subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last
) -> Iterator[BudgetFinding]:
    """Yield the changes at these minutes, in order; `last`: the last row of an alert.

    The first hour after `usage.from_ms` has no rate of a whole hour and is not judged.
    """
    first_ms = max(usage.from_ms + HOUR_MS, minutes.since_ms + MINUTE_MS)
    budget = subject.budget
    # One that ends at the first minute is judged there for the last time.
    begin_ms = min(first_ms, minutes.until_ms) - MINUTE_MS
    for period in periods(budget.per, begin_ms, minutes.until_ms, budget.calendar):
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
    holds, clears = _held(subject, usage, period, ends_ms, at_ms, fires=fires)
    over = over_ms(subject, period)
    if over is not None:
        holds &= at_ms < over
        clears |= at_ms >= over
    # A new owner looks at minutes that a former one has judged: an alert changes after its last change alone.
    place = 0 if row is None else int(np.searchsorted(at_ms, row.changed_ms, "right"))
    over_ms_before = None if row is None or fires else row.changed_ms
    while True:
        if not fires and over_ms_before is not None:
            place = max(place, int(np.searchsorted(at_ms, over_ms_before + _AGAIN_MS)))
        found = np.flatnonzero((clears if fires else holds)[place:])
        if not len(found):
            break
        place += int(found[0])
        fires, over_ms_before = not fires, int(at_ms[place])
        yield _finding(subject, usage, period, ends_ms, int(at_ms[place]), fires=fires)
        place += 1
    if fires and ends_ms <= minutes.until_ms:
        over_at_ms = ends_ms if row is None else max(ends_ms, row.changed_ms + 1)
        yield _finding(subject, usage, period, ends_ms, over_at_ms, fires=False)


def _held(
    subject: BudgetSubject,
    usage: Usage,
    period: CalendarPeriod,
    ends_ms: int,
    at_ms: NDArray[np.int64],
    *,
    fires: bool,
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether it would be used up in time, and whether an open alert clears, at each instant; `fires`: before the first."""
    used, limits = usage.used(period, at_ms), limits_of(subject.budget.limits)
    is_begun = np.zeros(used.shape, np.bool_)
    is_used_up = np.zeros(len(at_ms), np.bool_)
    for place, limit in enumerate(limits):
        if limit is not None:
            is_begun[place] = used[place] >= -(-limit // _PART)
            is_used_up |= used[place] >= limit
    is_begun &= at_ms >= _begun_ms(subject, period, ends_ms)
    is_looked_at = ~is_used_up & (is_begun.any(axis=0) | fires)
    holds, clears = np.zeros(len(at_ms), np.bool_), is_used_up.copy()
    looked_at_ms = at_ms[is_looked_at]
    would = used[:, is_looked_at] + to_come(subject, usage, ends_ms, looked_at_ms)
    opens, is_over = np.zeros(len(looked_at_ms), np.bool_), np.ones(len(looked_at_ms), np.bool_)
    for place, limit in enumerate(limits):
        if limit is not None:
            opens |= (would[place] > limit) & is_begun[place, is_looked_at]
            is_over &= would[place] <= limit * _CLEARS[0] // _CLEARS[1]
    holds[is_looked_at], clears[is_looked_at] = opens, is_over
    return holds, clears


def _begun_ms(subject: BudgetSubject, period: CalendarPeriod, ends_ms: int) -> int:
    """When so much of the period is over that a forecast may be made."""
    start_ms = period.start_ms if subject.run is None else subject.run.started_ms
    return 0 if start_ms is None else start_ms + max(ends_ms - start_ms, 0) // _PART


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
        exhausted_in_ms(subject, usage, period, at_minute_ms) if fires else None,
    )
