"""Makes rows of alerts of what judges of rules found in a span: the one place where an alert that flaps stays open.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from schemas.durations import NEVER_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.alerts.own_rule_records import PREFIX
from streams.engine.alerts.why_over import over_as_declared
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS
from streams.engine.ledger_rules.flapping import alert_rows, subject_of
from streams.engine.rules import team_ceiling
from streams.engine.rules.rule import JOB
from streams.worker.ledger_judges import run_sql
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore
from streams.worker.ledger_judges.team_ceiling_judge import is_dealt_with


class RowsOfChanges(Protocol):
    """What `FlappingAlerts.rows` is."""

    def __call__(self, changes: Sequence[Alert], *rules: str) -> list[Alert]:
        """The rows that the changes of these rules' judges make."""
        ...


class FlappingAlerts:
    """Call `rows` for the changes of each judge in one span of minutes."""

    def __init__(
        self, store: SqlStore, known_alerts: KnownAlerts, controls: Controls, span: tuple[int, int]
    ) -> None:
        """Take the controls in force in the span, from the last minute that was judged to the last one to judge."""
        self._store = store
        self._known_alerts = known_alerts
        self._controls = controls
        self._span = span
        self._attempts: dict[str, list[tuple[int, int]]] = {}  # of jobs: when they began and ended

    def rows(self, changes: Sequence[Alert], *rules: str) -> list[Alert]:
        """The rows that the changes of these rules' judges make in the span; without any, too, as what is quiet ends by itself."""
        firing = [alert for alert in self._known_alerts.firing() if alert.rule in rules]
        opening = {subject_of(each) for each in changes if each.status == FIRING}
        first_ms = min((each.changed_ms for each in changes), default=0)
        last = self._known_alerts.last_of(opening, first_ms - FLAPS_WITHIN_MS)
        found = alert_rows(changes, firing, last, self._span, self._is_over)
        return [over_as_declared(each, self._controls) for each in found]

    def _is_over(self, alert: Alert, at_ms: int) -> bool:
        """Whether its rule was switched off, its job has ended, or somebody has dealt with it."""
        if alert.rule == team_ceiling.NAME:
            return is_dealt_with(self._controls, alert, at_ms)
        if alert.rule.startswith(PREFIX):
            is_on = any(rule.rule == alert.rule for rule in self._controls.own_rules)
        else:
            is_on = settings_of(alert.rule, self._controls.fleet_rules).enabled
        return not is_on or (alert.subject_kind == JOB and self._has_ended(alert.subject_name, at_ms))

    def _has_ended(self, job_id: str, at_ms: int) -> bool:
        if job_id not in self._attempts:
            rows = named_rows(self._store, run_sql.ATTEMPTS, "jobs", [job_id])
            self._attempts[job_id] = [
                (row["began_ms"], NEVER_MS if row["ended_ms"] is None else row["ended_ms"]) for row in rows
            ]
        begun = [end_ms for began_ms, end_ms in self._attempts[job_id] if began_ms <= at_ms]
        return bool(begun) and max(begun) <= at_ms
