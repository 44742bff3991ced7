"""How far a rule that is judged by the hour was beyond its thresholds when its alert last held."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

from schemas.durations import HOUR_MS
from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.rules.hourly_sql import NO_EPISODES
from streams.engine.rules.rule import HourlyRule
from streams.explain.why.judged import JudgedRule, condition


class AskedRows(Protocol):
    """Answers statements by rows as objects."""

    def records(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        """Return the rows; `{name:Type}` in the SQL refers to the parameter of that name."""
        ...


def in_hour(
    store: AskedRows, rule: HourlyRule, subject: str, held_ms: int, controls: Iterable[ControlEvent]
) -> list[JudgedRule]:
    """Return the conditions for a subject in the hour that ends at `held_ms`, by the ledger as it is now.

    Empty where the rule does not hold there any more: rows were restated, or the thresholds are others.
    """
    of = settings_of(rule.name, Controls.from_events(controls).fleet_rules)
    from_ms = held_ms - HOUR_MS
    bound = rule.bound(of.thresholds, from_ms)
    rows = store.records(rule.sql, from_ms=from_ms, to_ms=held_ms, **NO_EPISODES, **bound)
    found = [row for row in rows if row["at_ms"] == held_ms and (not rule.key or row[rule.key] == subject)]
    return [
        condition(rule.name, margin, holds=True, enabled=of.enabled)
        for row in found[:1]
        for margin in rule.margins(of.thresholds, row)
    ]
