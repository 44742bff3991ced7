"""`budget_used`: a budget is used by 50, 80 and 100 %.

It must not read anything: what is used and which alerts fire is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.rules import PAGE, TICKET
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import MINUTE_MS, Usage

BUDGET_USED: Final = "budget_used"
#: Percent used, and the severity of the alert.
THRESHOLDS: Final = {50: TICKET, 80: TICKET, 100: PAGE}


class Minutes(NamedTuple):
    """The whole minutes to judge: after `since_ms` (None: all that are known), up to `until_ms`."""

    since_ms: int | None
    until_ms: int

    @property
    def first_ms(self) -> int:
        """Return the first minute that is judged; the last one where the beginning is not known."""
        return self.until_ms if self.since_ms is None else min(self.since_ms + MINUTE_MS, self.until_ms)

    def first_after(self, at_ms: int, known_ms: int) -> int:
        """Return when something that holds since `at_ms` is found: then, or at the first minute that is judged."""
        if self.since_ms is not None:
            return max(at_ms, self.since_ms + MINUTE_MS)
        return at_ms if at_ms > known_ms else self.until_ms


Last = Callable[[str], Alert | None]


def over_ms(subject: BudgetSubject, period: CalendarPeriod) -> int | None:
    """Return when the subject's period is over; None: it is not known to end."""
    return period.end_ms if subject.run is None else subject.run.over_ms


def judge_used(subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last) -> Iterator[BudgetFinding]:
    """Yield the changes at these minutes, in order of periods; `last`: the last row of an alert."""
    begin_ms = usage.from_ms if minutes.since_ms is None else max(minutes.since_ms, usage.from_ms)
    for period in periods(subject.budget.per, begin_ms, minutes.until_ms):
        yield from sorted(_judge(subject, usage, minutes, last, period), key=lambda found: found.at_ms)


def _judge(
    subject: BudgetSubject, usage: Usage, minutes: Minutes, last: Last, period: CalendarPeriod
) -> Iterator[BudgetFinding]:
    limits, ends_ms = subject.budget.limits, over_ms(subject, period)
    crossed = {percent: usage.crossed_ms(period, limits, percent, minutes.until_ms) for percent in THRESHOLDS}
    for percent, at_ms in crossed.items():
        row = last(budget_alert_id(BUDGET_USED, subject, percent, period))
        fires = row is not None and row.status == FIRING
        changed_ms = -1 if row is None else row.changed_ms
        if at_ms is not None and not fires:
            found_ms = max(minutes.first_after(at_ms, usage.from_ms), changed_ms + MINUTE_MS)
            # A higher threshold that is found at the same minute says all.
            is_said = any(
                higher > percent
                and other is not None
                and minutes.first_after(other, usage.from_ms) <= found_ms
                for higher, other in crossed.items()
            )
            if found_ms > minutes.until_ms or is_said or (ends_ms is not None and found_ms > ends_ms):
                continue
            yield _finding(subject, usage, period, percent, found_ms, fires=True)
            fires, changed_ms = True, found_ms
        if not fires:
            continue
        if ends_ms is not None and ends_ms <= minutes.until_ms:
            yield _finding(subject, usage, period, percent, max(ends_ms, changed_ms + 1), fires=False)
        elif at_ms is None:
            # It was at none of these minutes.
            yield _finding(
                subject, usage, period, percent, max(minutes.first_ms, changed_ms + 1), fires=False
            )


def _finding(
    subject: BudgetSubject, usage: Usage, period: CalendarPeriod, percent: int, at_ms: int, *, fires: bool
) -> BudgetFinding:
    return BudgetFinding(
        BUDGET_USED,
        percent,
        subject,
        period,
        at_ms,
        fires,
        usage.used_at(period, at_ms),
        usage.per_hour_at(at_ms),
        over_ms(subject, period),
    )
