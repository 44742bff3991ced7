"""Judges budgets over whole minutes: the same for a worker, which does it each minute, and for a replay.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.budgets import MATCHED
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_alert import TopKind, budget_alert, budget_over
from streams.engine.ledger_rules.budget_forecast import judge_forecast
from streams.engine.ledger_rules.budget_runs import Spell, spells
from streams.engine.ledger_rules.budget_used import Last, Minutes, judge_used
from streams.engine.ledger_rules.findings import BudgetFinding, budget_alert_id
from streams.engine.ledger_rules.periods import CalendarPeriod, period_at, periods
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Amounts, Usage, used_ratio
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED, THRESHOLDS
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.reader import Cycle, Group, LedgerReader

#: A look reaches back so far at most; what was crossed before is found at its first minute.
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


class _Judged(NamedTuple):
    """A subject, the minutes to judge and what it used."""

    subject: BudgetSubject
    minutes: Minutes
    usage: Usage


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

    def judge(self, controls: Controls, minutes: Minutes) -> LedgerChanges:
        """Judge these whole minutes by the controls that were in force at all of them."""
        self._known_alerts.read_firing()
        begin_ms = read_from_ms(minutes.since_ms)
        judged = self._judged(controls, minutes, begin_ms)
        findings = self._findings(judged)
        if missing := self._known_alerts.missing(found.id for found in findings if found.fires):
            self._known_alerts.read(missing)
            findings = self._findings(judged)  # a row that is resolved already may have been found
        alerts = self._alerts(findings, controls)
        last = [each for each in judged if each.minutes.until_ms == minutes.until_ms]
        alerts += self._gone([each.subject for each in last], minutes, alerts, begin_ms)
        states = [_state(each, minutes.until_ms) for each in last]
        is_last_gone = not any(state.is_stored for state in states) and self._reader.has_budgets()
        return LedgerChanges(minutes.until_ms, alerts, states, is_last_gone)

    def _judged(self, controls: Controls, minutes: Minutes, from_ms: int) -> list[_Judged]:
        """All subjects of budgets with their minutes and their use since `from_ms`, those of one run in order."""
        per_run = [budget for budget in controls.budgets if budget.is_per_run]
        jobs = self._reader.runs(from_ms, is_any=bool(per_run))
        found = [
            Spell(BudgetSubject(budget), minutes) for budget in controls.budgets if not budget.is_per_run
        ]
        found += spells(jobs, per_run, minutes)
        by_fields: dict[tuple[str, ...], list[BudgetSubject]] = {}
        for spell in found:
            by_fields.setdefault(_fields(spell.subject), []).append(spell.subject)
        usage: dict[tuple[str, ...], dict[tuple[Group, Cycle], Usage]] = {}
        for fields, subjects in by_fields.items():
            groups = {group for subject in subjects for group in _groups(fields, subject)}
            budgets = [subject.budget for subject in subjects]
            usage[fields] = self._reader.usage(fields, groups, budgets, from_ms, minutes.until_ms)
        return [_Judged(*spell, self._usage_of(spell.subject, usage)) for spell in found]

    @staticmethod
    def _usage_of(
        subject: BudgetSubject, usage: Mapping[tuple[str, ...], Mapping[tuple[Group, Cycle], Usage]]
    ) -> Usage:
        fields = _fields(subject)
        of = usage[fields]
        return Usage.together([of[group, subject.budget.cycle] for group in _groups(fields, subject)])

    def _findings(self, judged: Sequence[_Judged]) -> list[BudgetFinding]:
        found: list[BudgetFinding] = []
        rows: dict[str, Alert] = {}  # as of the spells before
        before: dict[tuple[str, str], _Judged] = {}  # by budget and run
        until_ms = max((each.minutes.until_ms for each in judged), default=0)

        def last(alert_id: str) -> Alert | None:
            return rows.get(alert_id) or self._known_alerts.last(alert_id)

        def keep(changes: Iterable[BudgetFinding]) -> None:
            for each in changes:
                rows[each.id] = budget_alert(last(each.id), each, TopKind(), silenced=False)
                found.append(each)

        for each in judged:
            subject, minutes, usage = each
            if subject.run is not None:
                of = subject.budget.name, subject.run.job_id
                keep(_ends(before.get(of), each, last))
                before[of] = each
            keep([*judge_used(subject, usage, minutes, last), *judge_forecast(subject, usage, minutes, last)])
        for each in before.values():
            if each.minutes.until_ms < until_ms:
                keep(_ends(each, None, last))
        return sorted(found, key=lambda finding: finding.at_ms)

    def _alerts(self, findings: Sequence[BudgetFinding], controls: Controls) -> list[Alert]:
        alerts: list[Alert] = []
        last: dict[str, Alert] = {}
        for found in findings:
            row = last.get(found.id, self._known_alerts.last(found.id))
            top = self._reader.top(found.subject.wanted, found.at_ms)
            severity = THRESHOLDS.get(found.percent, "ticket")
            silenced = controls.silenced(found.subject.dimensions, found.rule, severity, found.at_ms)
            last[found.id] = budget_alert(row, found, top, silenced=silenced)
            alerts.append(last[found.id])
        return alerts

    def _gone(
        self,
        subjects: Iterable[BudgetSubject],
        minutes: Minutes,
        changed: Sequence[Alert],
        from_ms: int,
    ) -> list[Alert]:
        """Resolve what fires although its budget, period or job is gone."""
        done = {alert.alert_id for alert in changed}
        firing = [
            alert
            for alert in self._known_alerts.firing()
            if alert.rule in (BUDGET_USED, BUDGET_FORECAST)
            and alert.alert_id not in done
            # One that a former owner opened after these minutes may be of a budget that was published after them.
            and alert.changed_ms < minutes.until_ms
        ]
        if not firing:
            return []
        begin_ms = max(minutes.since_ms, from_ms)
        alive: set[str] = set()
        for subject in subjects:
            for period in periods(subject.budget.per, begin_ms, minutes.until_ms, subject.budget.calendar):
                alive |= _ids_of(subject, period).keys()
        return [
            budget_over(alert, max(minutes.first_ms, alert.changed_ms + 1))
            for alert in firing
            if alert.alert_id not in alive
        ]


def read_from_ms(since_ms: int) -> int:
    """The first hour to read, an hour before the minutes that are judged: rates are those of the last hour."""
    return max(since_ms // HOUR_MS - 1, 0) * HOUR_MS


def _fields(subject: BudgetSubject) -> tuple[str, ...]:
    return tuple(name for name in MATCHED if name in subject.match)


def _groups(fields: Sequence[str], subject: BudgetSubject) -> list[Group]:
    """What is read of a subject: of a run each of its jobs."""
    if subject.run is not None:
        return [(job_id,) for job_id in subject.jobs]
    return [tuple(subject.match[name] for name in fields)]


def _ids_of(subject: BudgetSubject, period: CalendarPeriod) -> dict[str, tuple[str, int]]:
    """The alerts that a budget may have in a period, with their rules and percents."""
    kinds = [(BUDGET_FORECAST, 0), *((BUDGET_USED, percent) for percent in THRESHOLDS)]
    return {budget_alert_id(rule, subject, percent, period): (rule, percent) for rule, percent in kinds}


def _ends(before: _Judged | None, now: _Judged | None, last: Last) -> Iterator[BudgetFinding]:
    """Yield the ends of what fires by the budget that a run had until some minute; `now`: what it has from then on, or later.

    Its newest job may have another budget, or none.
    """
    if before is None:
        return
    subject, over_ms = before.subject, before.minutes.until_ms + MINUTE_MS
    period = period_at(subject.budget.per, before.minutes.until_ms, subject.budget.calendar)
    ids = _ids_of(subject, period)
    if now is not None and now.minutes.since_ms == before.minutes.until_ms:
        ids = {each: rule for each, rule in ids.items() if each not in _ids_of(now.subject, period)}
    for alert_id, (rule, percent) in ids.items():
        row = last(alert_id)
        if row is not None and row.status == FIRING:
            at_ms = max(over_ms, row.changed_ms + 1)
            yield BudgetFinding(rule, percent, subject, period, at_ms, False)


def _state(of: _Judged, at_ms: int) -> BudgetState:
    period = period_at(of.subject.budget.per, at_ms, of.subject.budget.calendar)
    return BudgetState(
        of.subject, period, at_ms, of.usage.used_at(period, at_ms), of.usage.per_hour_at(at_ms)
    )
