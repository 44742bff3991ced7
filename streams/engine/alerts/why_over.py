"""Why an alert ended though its condition still holds: a planned or acknowledged rate explains it, or its rule was switched off.

The judge that ends an alert says so in the sentence of its row, so that messages and the store have the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from schemas.escaping import visible
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord, settings_of
from streams.engine.alerts.planned import FOR_EVER_MS, Planned
from streams.engine.alerts.possible import CEILING_FIELDS
from streams.engine.rules.formatting import NAMES_AT_MOST, rounded_usd, short, short_instant
from streams.engine.rules.registry import LEDGER_RULES, PLANNED_QUIETS
from streams.engine.state.dimensions import AlertDimensions

#: How the end of a burn is said whose rate fell.
_BELOW: Final = re.compile(r"is below [\d.]+x its expected cost again")
_HAS_REASON: Final = re.compile(r" (?:has ended|is covered by|is not judged by)\b")


def over_as_declared(alert: Alert, controls: Controls, dimensions: AlertDimensions | None = None) -> Alert:
    """The row of an end that says what ended it, if that is what somebody declared; any other row as it is.

    Args:
        alert: A row.
        controls: Those in force at its tick.
        dimensions: Of the job that it is about; None: it is about no job.
    """
    if alert.status != RESOLVED or _HAS_REASON.search(alert.summary):
        return alert
    why = _why_over(alert, controls, dimensions)
    if not why:
        return alert
    said, count = _BELOW.subn(lambda _: f"is {why}", alert.summary, count=1)
    return msgspec.structs.replace(alert, summary=said if count else f"{why}: {alert.summary}")


def _why_over(alert: Alert, controls: Controls, dimensions: AlertDimensions | None) -> str:
    """In a few words, with who did it and until when; '': what the alert is about is over itself, as far as controls say."""
    assert alert.resolved_ms is not None
    if alert.rule in PLANNED_QUIETS or alert.rule in CEILING_FIELDS:
        known = [
            each for each in _rates(alert, controls, dimensions) if _explains(each, alert, alert.resolved_ms)
        ]
        if known:
            # Of an acknowledgement the name begins with a zero byte, so that it comes before plans.
            chosen = min(known, key=lambda each: each.name)
            word = "acknowledged" if _is_ack(chosen) else "planned"
            until_ms = chosen.until_ms
            until = (
                "" if until_ms >= FOR_EVER_MS else f" until {short_instant(until_ms, alert.resolved_ms)} UTC"
            )
            return f"{word} at {rounded_usd(chosen.nano_per_hour)}/h{_by(chosen.by)}{until}"
    if alert.rule in LEDGER_RULES and not settings_of(alert.rule, controls.fleet_rules).enabled:
        return f"switched off{_by(_switched_off_by(alert.rule, controls.fleet_rules))}"
    return ""


def _rates(alert: Alert, controls: Controls, dimensions: AlertDimensions | None) -> Iterable[Planned]:
    """The planned and acknowledged rates of what the alert is about."""
    if dimensions is not None:
        return controls.plans_of(dimensions)
    return [each for each in controls.team_rates if each.match == {alert.subject_kind: alert.subject_name}]


def _explains(known: Planned, alert: Alert, at_ms: int) -> bool:
    """Whether it may end alerts of the rule, and is for more than what was expected when the alert still held."""
    return (
        alert.rule in (CEILING_FIELDS if _is_ack(known) else PLANNED_QUIETS)
        and known.from_ms <= at_ms < known.until_ms
        and known.nano_per_hour > alert.expected_nano_per_hour
    )


def _is_ack(known: Planned) -> bool:
    return known.name.startswith("\0")


def _switched_off_by(rule: str, records: Iterable[LedgerRuleRecord]) -> str:
    return next((each.by for each in records if each.rule == rule and each.enabled is False), "")


def _by(name: str) -> str:
    return f" by {short(visible(name), NAMES_AT_MOST)}" if name else ""
