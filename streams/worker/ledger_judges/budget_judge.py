"""Judges budgets over whole minutes: the same for a worker, which does it each minute, and for a replay.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.budgets import MATCHED, own_budget
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_alert import budget_alert, budget_over
from streams.engine.ledger_rules.budget_forecast import judge_forecast
from streams.engine.ledger_rules.budget_used import Minutes, judge_used
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, period_at, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts, Usage, used_ratio
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.reader import Group, LedgerReader

#: A look reaches back so far at most; what was crossed before is found at its first minute.
_BACK_MS: Final = 48 * HOUR_MS
#: A run that is over has a row if it used so much of its budget.
RUN_FROM_RATIO: Final = 0.5


class BudgetState(NamedTuple):
    """What a subject has used in the period of the last judged minute."""

    subject: BudgetSubject
    period: CalendarPeriod
    at_ms: int
    used: Amounts
    per_hour: Amounts

    @property
    def ratio(self) -> float:
        """The largest share of a limit that is used."""
        return used_ratio(self.used, self.subject.budget.limits)

    @property
    def is_stored(self) -> bool:
        """Whether it has a row: not of a run that is over, unless it used half of its budget."""
        run = self.subject.run
        over_ms = None if run is None else run.over_ms
        return over_ms is None or self.at_ms < over_ms or self.ratio >= RUN_FROM_RATIO


@dataclass(frozen=True)
class LedgerChanges:
    """What a look found: new rows of alerts in order, and the states of all budgets."""

    until_ms: int
    alerts: list[Alert] = field(default_factory=list)
    states: list[BudgetState] = field(default_factory=list)
    is_last_gone: bool = False  # there is no budget any more, and the store still has one

    @property
    def stored_states(self) -> list[BudgetState]:
        """Those that have rows."""
        return [state for state in self.states if state.is_stored]


class BudgetJudge:
    """Call `judge` for successive spans of minutes; store the rows of the changes before the next call."""

    def __init__(self, reader: LedgerReader, known_alerts: KnownAlerts) -> None:
        self._reader = reader
        self._known_alerts = known_alerts

    def judge(self, controls: Controls, minutes: Minutes, from_ms: int | None = None) -> LedgerChanges:
        """Judge these minutes by the controls in force.

        Args:
            controls: The controls in force at all of them.
            minutes: Whole minutes; without a beginning those of the last hours.
            from_ms: The first hour to read, if the span has no beginning.
        """
        self._known_alerts.read_firing()
        begin_ms = minutes.until_ms - HOUR_MS if minutes.since_ms is None else minutes.since_ms
        begin_ms = max(begin_ms - HOUR_MS, minutes.until_ms - _BACK_MS) if from_ms is None else from_ms
        begin_ms = max(begin_ms // HOUR_MS * HOUR_MS, 0)
        judged = self._judged(controls, begin_ms, minutes.until_ms)
        findings = self._findings(judged, minutes)
        if missing := self._known_alerts.missing(found.id for found in findings if found.fires):
            self._known_alerts.read(missing)
            findings = self._findings(judged, minutes)  # a row that is resolved already may have been found
        alerts = self._alerts(findings, controls)
        alerts += self._gone(judged, minutes, alerts, begin_ms)
        states = [_state(subject, usage, minutes.until_ms) for subject, usage in judged]
        is_last_gone = not any(state.is_stored for state in states) and self._reader.has_budgets()
        return LedgerChanges(minutes.until_ms, alerts, states, is_last_gone)

    def _judged(self, controls: Controls, from_ms: int, until_ms: int) -> list[tuple[BudgetSubject, Usage]]:
        """All subjects of budgets with their use in [from_ms, until_ms)."""
        shared = [BudgetSubject(budget) for budget in controls.budgets if not budget.is_per_run]
        per_run = [budget for budget in controls.budgets if budget.is_per_run]
        runs = self._reader.runs(from_ms, is_any=bool(per_run))
        own = [
            BudgetSubject(budget, run) for run, fields in runs if (budget := own_budget(fields)) is not None
        ]
        own += [
            BudgetSubject(budget, run) for run, _ in runs for budget in per_run if run.matches(budget.match)
        ]
        found: list[tuple[BudgetSubject, Usage]] = []
        by_fields: dict[tuple[str, ...], list[BudgetSubject]] = {}
        for subject in [*shared, *own]:
            by_fields.setdefault(_fields(subject.match), []).append(subject)
        for fields, subjects in by_fields.items():
            groups = {_group(fields, subject.match) for subject in subjects}
            budgets = [subject.budget for subject in subjects]
            usage = self._reader.usage(fields, groups, budgets, from_ms, until_ms)
            found += [
                (subject, usage[_group(fields, subject.match), subject.budget.per]) for subject in subjects
            ]
        return found

    def _findings(
        self, judged: Iterable[tuple[BudgetSubject, Usage]], minutes: Minutes
    ) -> list[BudgetFinding]:
        last, found = self._known_alerts.last, list[BudgetFinding]()
        for subject, usage in judged:
            found += judge_used(subject, usage, minutes, last)
            found += judge_forecast(subject, usage, minutes, last)
        return sorted(found, key=lambda each: each.at_ms)

    def _alerts(self, findings: Sequence[BudgetFinding], controls: Controls) -> list[Alert]:
        alerts: list[Alert] = []
        last: dict[str, Alert] = {}
        for found in findings:
            row = last.get(found.id, self._known_alerts.last(found.id))
            top = self._reader.top(found.subject.match, found.at_ms)
            severity = THRESHOLDS.get(found.percent, "ticket")
            silenced = controls.silenced(found.subject.dimensions, found.rule, severity, found.at_ms)
            last[found.id] = budget_alert(row, found, top, silenced=silenced)
            alerts.append(last[found.id])
        return alerts

    def _gone(
        self,
        judged: Sequence[tuple[BudgetSubject, Usage]],
        minutes: Minutes,
        changed: Sequence[Alert],
        from_ms: int,
    ) -> list[Alert]:
        """Resolve what fires although its budget, period or job is gone."""
        done = {alert.alert_id for alert in changed}
        firing = [
            alert
            for alert in self._known_alerts.firing()
            if alert.rule in (BUDGET_USED, BUDGET_FORECAST) and alert.alert_id not in done
        ]
        if not firing:
            return []
        begin_ms = from_ms if minutes.since_ms is None else max(minutes.since_ms, from_ms)
        alive: set[str] = set()
        for subject, _ in judged:
            for period in periods(subject.budget.per, begin_ms, minutes.until_ms):
                alive.add(budget_alert_id(BUDGET_FORECAST, subject, 0, period))
                alive |= {budget_alert_id(BUDGET_USED, subject, percent, period) for percent in THRESHOLDS}
        return [
            budget_over(alert, max(minutes.first_ms, alert.changed_ms + 1))
            for alert in firing
            if alert.alert_id not in alive
        ]


def _fields(match: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(name for name in MATCHED if name in match)


def _group(fields: Sequence[str], match: Mapping[str, str]) -> Group:
    return tuple(match[name] for name in fields)


def _state(subject: BudgetSubject, usage: Usage, at_ms: int) -> BudgetState:
    period = period_at(subject.budget.per, at_ms)
    return BudgetState(subject, period, at_ms, usage.used_at(period, at_ms), usage.per_hour_at(at_ms))
