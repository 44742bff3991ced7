"""The fields that a record of kind `rule` may set of any rule: parsed, and held to the limits of the table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.refusal import shown
from streams.engine.alerts.malformed import MalformedControlError, nearest
from streams.engine.rules.rule import PAGE, TICKET, AlertRule

_SEVERITIES: Final = (PAGE, TICKET)


class RuleFields(NamedTuple):
    """What a record sets of a rule; None, or a threshold that is absent: it leaves that."""

    enabled: bool | None
    severity: str | None
    thresholds: Mapping[str, float]


def rule_fields_of(rule: AlertRule, value: Mapping[str, object]) -> RuleFields:
    """What a record sets.

    Raises:
        MalformedControlError: A field is invalid; the message names it, and what is allowed.
    """
    enabled = value.get("enabled")
    if not (enabled is None or isinstance(enabled, bool)):
        raise MalformedControlError(f"enabled: got {shown(enabled)}, expected true or false")
    severity = value.get("severity")
    if not (severity is None or (isinstance(severity, str) and severity in _SEVERITIES)):
        raise MalformedControlError(
            f"severity: got {shown(severity)}, expected one of {', '.join(_SEVERITIES)}"
        )
    return RuleFields(enabled, severity, _thresholds(rule, value.get("thresholds")))


def _thresholds(rule: AlertRule, given: object) -> dict[str, float]:
    allowed = ", ".join(rule.thresholds) or "none"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise MalformedControlError(f"thresholds: expected an object of {allowed}")
    found: dict[str, float] = {}
    for name, value in given.items():
        threshold = rule.thresholds.get(name)
        if threshold is None:
            raise MalformedControlError(
                f"thresholds.{shown(name)}: {rule.name} has no such threshold, expected one of {allowed}"
                f"{nearest(name, rule.thresholds)}"
            )
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        if not (fits and threshold.least <= value <= threshold.most):
            raise MalformedControlError(
                f"thresholds.{name}: got {shown(value)}, expected a number from {threshold.least:g} to {threshold.most:g}"
                f" ({threshold.what})"
            )
        if threshold.is_count and value != int(value):
            raise MalformedControlError(f"thresholds.{name}: got {shown(value)}, expected a whole number")
        found[name] = float(value)
    return found
