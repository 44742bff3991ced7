"""Why an alert is over though what it is about goes on: a planned or acknowledged rate explains it, or its rule was switched off."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from schemas.escaping import visible
from schemas.events import ControlEvent
from schemas.validate_controls import ACK
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.alerts.planned import FOR_EVER_MS, Planned
from streams.engine.alerts.possible import CEILING_FIELDS
from streams.engine.rules.formatting import NAMES_AT_MOST, rounded_usd, short, short_instant
from streams.engine.rules.registry import LEDGER_RULES, PLANNED_QUIETS
from streams.engine.rules.rule import JOB

_SUBJECT_FIELDS: Final = {JOB: "job_id", "team": "team"}


def why_over(alert: Alert, controls: Controls, records: Mapping[bytes, ControlEvent]) -> str:
    """In a few words, with who did it and until when; '': what the alert is about is over itself, as far as controls say.

    Args:
        alert: The row of its end.
        controls: Those in force.
        records: The newest record of each control, by key.
    """
    if alert.resolved_ms is None:
        return ""
    rates = (*controls.planned, *controls.team_rates)
    known = [each for each in rates if _explains(each, alert, alert.resolved_ms)]
    if known:
        # Of an acknowledgement the name begins with a zero byte, so that it comes before plans.
        chosen = min(known, key=lambda each: each.name)
        is_ack = chosen.name.startswith("\0")
        record = records.get(f"{ACK if is_ack else 'planned'}/{chosen.name.removeprefix(chr(0))}".encode())
        word = "acknowledged" if is_ack else "planned"
        rate = rounded_usd(chosen.nano_per_hour)
        until = (
            ""
            if chosen.until_ms >= FOR_EVER_MS
            else f" until {short_instant(chosen.until_ms, alert.resolved_ms)} UTC"
        )
        return f"{word} at {rate}/h{_by(record)}{until}"
    if alert.rule in LEDGER_RULES and not settings_of(alert.rule, controls.fleet_rules).enabled:
        return f"switched off{_by(_switched_off(alert.rule, records.values()))}"
    return ""


def _explains(known: Planned, alert: Alert, at_ms: int) -> bool:
    """Whether it is for the subject of an alert, and for more than what was expected when the alert still held."""
    is_ack = known.name.startswith("\0")
    if alert.rule not in (CEILING_FIELDS if is_ack else PLANNED_QUIETS):
        return False
    subject = _SUBJECT_FIELDS.get(alert.subject_kind, "")
    facts = {"owner": alert.owner, "team": alert.team, "project": alert.project, subject: alert.subject_name}
    return (
        known.from_ms <= at_ms < known.until_ms
        and known.nano_per_hour > alert.expected_nano_per_hour
        and all(facts.get(field) == wanted for field, wanted in known.match.items())
    )


def _switched_off(rule: str, records: Iterable[ControlEvent]) -> ControlEvent | None:
    for each in records:
        if (
            each.kind == "rule"
            and each.value.get("rule", each.name) == rule
            and each.value.get("enabled") is False
        ):
            return each
    return None


def _by(record: ControlEvent | None) -> str:
    if record is None:
        return ""
    by = record.value.get("by")
    return f" by {short(visible(by if isinstance(by, str) and by else record.source), NAMES_AT_MOST)}"
