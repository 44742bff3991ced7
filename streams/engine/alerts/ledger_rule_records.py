"""The settings of rules that are judged on the ledger, from the records of `controls`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from streams.engine.alerts.malformed import MalformedControlError, all_of, refuse_any
from streams.engine.alerts.rule_fields import rule_fields_of
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.registry import LEDGER_RULES
from streams.engine.rules.rule import LedgerRule


class LedgerRuleRecord(NamedTuple):
    """What a record sets of such a rule; None: it leaves that. Most rules have no match fields."""

    name: str
    match: Mapping[str, str]
    rule: str
    enabled: bool | None
    severity: str | None
    thresholds: Mapping[str, float]
    by: str = ""  # who set it


def is_ledger_rule(name: str, value: Mapping[str, object]) -> bool:
    """Whether a control of kind `rule` is about one of these rules; `rule` is the record's name if it is absent."""
    rule = value.get("rule")
    return (name if rule is None else rule) in tuple(LEDGER_RULES)


def ledger_rule_record_of(
    name: str, value: Mapping[str, object], match: Mapping[str, str], by: str = ""
) -> LedgerRuleRecord:
    """Build a record from its fields.

    Raises:
        MalformedControlError: A field is invalid.
    """
    rule = LEDGER_RULES[str(name if value.get("rule") is None else value["rule"])]
    _, fields = all_of(lambda: _check_match(rule, match), lambda: rule_fields_of(rule, value))
    return LedgerRuleRecord(name, match, rule.name, *fields, by)


def _check_match(rule: LedgerRule, match: Mapping[str, str]) -> None:
    if match and not rule.match_fields:
        raise MalformedControlError(f"match: {rule.name} is about the whole fleet: it takes no match fields")
    *first, last = rule.match_fields or ("",)
    fields = f"{', '.join(first)} and {last}" if first else last
    refuse_any(
        f"{other}: {rule.name} matches on {fields}" for other in match if other not in rule.match_fields
    )


def settings_of(rule: str, records: Iterable[LedgerRuleRecord]) -> LedgerSettings:
    """The settings of a rule; of several records the one with the smallest name wins."""
    known = LEDGER_RULES[rule]
    enabled, severity = known.enabled, known.severity
    thresholds = {name: each.default for name, each in known.thresholds.items()}
    for record in sorted(records, key=lambda each: each.name, reverse=True):
        if record.rule == rule:
            enabled = enabled if record.enabled is None else record.enabled
            severity = record.severity or severity
            thresholds |= record.thresholds
    return LedgerSettings(enabled, severity, thresholds)
