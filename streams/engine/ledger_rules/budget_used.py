"""`budget_used`: a budget is used by 50, 80 and 100 %.

What is used and which alerts fire is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import MINUTE_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.ledger_rules.exhaustion import exhausted_in_ms
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Usage
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS


class Minutes(NamedTuple):
    """The whole minutes to judge: after `since_ms`, up to `until_ms`."""

    since_ms: int
    until_ms: int

    @property
    def first_ms(self) -> int:
        """The first minute that is judged."""
        return min(self.since_ms + MINUTE_MS, self.until_ms)


Last = Callable[[str], Alert | None]


def over_ms(subject: BudgetSubject, period: CalendarPeriod) -> int | None:
    """Return when the subject's period is over; None: it is not known to end."""
    return period.end_ms if subject.run is None else subject.run.over_ms


def judge_used(subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last) -> Iterator[BudgetFinding]:
    """Yield the changes at these minutes, in order of periods; `last`: the last row of an alert."""
    begin_ms = max(minutes.since_ms, usage.from_ms)
    for period in periods(subject.budget.per, begin_ms, minutes.until_ms, subject.budget.calendar):
        yield from sorted(_judge(subject, usage, minutes, last, period), key=lambda found: found.at_ms)


def _judge(
    subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last, period: CalendarPeriod
) -> Iterator[BudgetFinding]:
    """Step each threshold through the minutes of one period: it may be reached, be left, and be reached again."""
    ends_ms = over_ms(subject, period)
    at_ms = _minutes(usage, minutes, period, ends_ms)
    rows = [last(budget_alert_id(BUDGET_USED, subject, percent, period)) for percent in THRESHOLDS]
    # What is used only rises in a period: most subjects are below the first threshold at its last minute.
    if (
        not any(rows)
        and not usage.reached(period, subject.budget.limits, at_ms[-1:], (min(THRESHOLDS),)).any()
    ):
        return
    reached = usage.reached(period, subject.budget.limits, at_ms, tuple(THRESHOLDS))
    for place, percent in enumerate(THRESHOLDS):
        higher = reached[place + 1] if place + 1 < len(THRESHOLDS) else np.zeros(len(at_ms), np.bool_)
        # The highest threshold that is reached says all: a budget has one open alert, not one per threshold.
        opens = reached[place] & ~higher
        clears = ~reached[place] | higher
        yield from _changes(
            subject, usage, period, percent, rows[place], at_ms, opens, clears, minutes, ends_ms
        )


def _minutes(
    usage: Usage, minutes: Minutes, period: CalendarPeriod, ends_ms: int | None
) -> NDArray[np.int64]:
    """The minutes of the period that are judged."""
    begin_ms = max(minutes.since_ms, usage.from_ms)
    last_ms = minutes.until_ms if ends_ms is None else min(minutes.until_ms, ends_ms)
    return np.arange(max(begin_ms, period.start_ms) + MINUTE_MS, last_ms + 1, MINUTE_MS, dtype=np.int64)


def _changes(
    subject: BudgetSubject,
    usage: Usage,
    period: CalendarPeriod,
    percent: int,
    row: Alert | None,
    at_ms: NDArray[np.int64],
    opens: NDArray[np.bool_],
    clears: NDArray[np.bool_],
    minutes: Minutes,
    ends_ms: int | None,
) -> Iterator[BudgetFinding]:
    fires = row is not None and row.status == FIRING
    changed_ms = -1 if row is None else row.changed_ms
    # A new owner looks at minutes that a former one has judged: an alert changes after its last change alone.
    place = int(np.searchsorted(at_ms, changed_ms, "right"))
    while len(found := np.flatnonzero((clears if fires else opens)[place:])):
        place += int(found[0])
        fires, changed_ms = not fires, int(at_ms[place])
        yield _finding(subject, usage, period, percent, changed_ms, fires=fires)
        place += 1
    if fires and ends_ms is not None and ends_ms <= minutes.until_ms:
        yield _finding(subject, usage, period, percent, max(ends_ms, changed_ms + 1), fires=False)


def _finding(
    subject: BudgetSubject, usage: Usage, period: CalendarPeriod, percent: int, at_ms: int, *, fires: bool
) -> BudgetFinding:
    at_minute_ms = at_ms // MINUTE_MS * MINUTE_MS
    return BudgetFinding(
        BUDGET_USED,
        percent,
        subject,
        period,
        at_ms,
        fires,
        usage.used_at(period, at_minute_ms),
        usage.per_hour_at(at_minute_ms),
        over_ms(subject, period),
        exhausted_in_ms(subject, usage, period, at_minute_ms) if fires else None,
    )
