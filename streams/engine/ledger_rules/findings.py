"""A change of an alert that a rule finds: its figures, before they are made into a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from streams.engine.alerts.alert import alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts, limits_of


class BudgetFinding(NamedTuple):
    """A budget's alert opens (`fires`) or is over at a whole minute, with the figures of then."""

    rule: str
    percent: int  # 0: of a forecast
    subject: BudgetSubject
    period: CalendarPeriod
    at_ms: int
    fires: bool
    used: Amounts = Amounts()
    per_hour: Amounts = Amounts()
    ends_ms: int | None = None  # what a forecast compares with: the period's end or the deadline
    exhausted_in_ms: int | None = None  # None: not in this period

    @property
    def id(self) -> str:
        """The id of its alert."""
        return budget_alert_id(self.rule, self.subject, self.percent, self.period)


def budget_alert_id(rule: str, subject: BudgetSubject, percent: int, period: CalendarPeriod) -> str:
    """The id of a budget's alert: one per threshold, limit and period, whenever it was crossed.

    What is crossed once the limit was changed is another crossing; a forecast (`percent` 0) goes on.
    """
    limits = [percent, *limits_of(subject.budget.limits)] if percent else [percent]
    return budget_id(rule, subject.kind, subject.name, subject.budget.name, limits, period.start_ms)


def budget_id(
    rule: str, kind: str, name: str, budget: str, limits: Sequence[int | None], start_ms: int
) -> str:
    """The id by its parts; `limits`: the percent of a threshold, and the limits unless it is 0."""
    return alert_id(rule, kind, f"{name}|{budget}|{','.join(map(str, limits))}", start_ms)
