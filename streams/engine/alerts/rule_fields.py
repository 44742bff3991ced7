"""The fields that a record of kind `rule` may set of any rule: parsed, and held to the limits of the table of rules."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.refusal import nearest, shown
from streams.engine.alerts.malformed import MalformedControlError, all_of, refuse_any
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
    return RuleFields(
        *all_of(
            lambda: _enabled(value.get("enabled")),
            lambda: _severity(value.get("severity")),
            lambda: _thresholds(rule, value.get("thresholds")),
        )
    )


def _enabled(given: object) -> bool | None:
    if not (given is None or isinstance(given, bool)):
        raise MalformedControlError(f"enabled: got {shown(given)}, expected true or false")
    return given


def _severity(given: object) -> str | None:
    if not (given is None or (isinstance(given, str) and given in _SEVERITIES)):
        raise MalformedControlError(f"severity: got {shown(given)}, expected one of {', '.join(_SEVERITIES)}")
    return given


def _thresholds(rule: AlertRule, given: object) -> dict[str, float]:
    allowed = ", ".join(rule.thresholds) or "none"
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise MalformedControlError(f"thresholds: expected an object of {allowed}")
    refuse_any(
        fault for name, value in given.items() if (fault := _threshold_fault(rule, name, value, allowed))
    )
    return {name: float(value) for name, value in given.items()}


def _threshold_fault(rule: AlertRule, name: str, value: object, allowed: str) -> str:
    """Why a rule cannot have a threshold of this value; '' where it can."""
    threshold = rule.thresholds.get(name)
    if threshold is None:
        return (
            f"thresholds.{shown(name)}: {rule.name} has no such threshold, expected one of {allowed}"
            f"{nearest(name, rule.thresholds)}"
        )
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not threshold.least <= value <= threshold.most
    ):
        return (
            f"thresholds.{name}: got {shown(value)}, expected a number from {threshold.least:g} to {threshold.most:g}"
            f" ({threshold.what})"
        )
    if threshold.is_count and value != int(value):
        return f"thresholds.{name}: got {shown(value)}, expected a whole number"
    return ""
