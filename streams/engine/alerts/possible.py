"""Refuses match fields that nothing can have: such a control would be in force and have no effect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.refusal import nearest, shown
from streams.engine.alerts.malformed import MalformedControlError, all_of, refuse_any
from streams.engine.alerts.own_rule_records import PREFIX as OWN
from streams.engine.rules.registry import ALL, BUDGET_NAMES, LEDGER_RULES, NAMES
from streams.engine.rules.rule import JOB, PAGE, TICKET

_RULES: Final = tuple(rule.name for rule in ALL)
_SEVERITIES: Final = (PAGE, TICKET)
#: What alerts about jobs that are judged on the ledger have, and those about budgets.
_NAMES: Final = ("job_id", "owner", "team", "project")


#: Rules whose acknowledgement lifts a ceiling up to the rate that is acknowledged, and the field that says of what.
CEILING_FIELDS: Final = {"ceiling": "job_id", "team_ceiling": "team"}
#: Fields that name a subject, and those that name whose an alert is.
_OF_NAME: Final = ("owner", "team", "project", "experiment")
_WHOSE: Final = ("owner", "team", "project")


def silence_fields(rule: str) -> tuple[str, ...]:
    """The fields by which a silence can match alerts of a rule, beside `rule` and `severity`; none: it takes all of the rule."""
    if rule in NAMES:
        return (*_NAMES, "experiment")
    if rule.startswith(OWN):
        return _NAMES
    return _fields_of(rule) if rule in LEDGER_RULES or rule in BUDGET_NAMES else ()


def narrowest_silence(rule: str, kind: str, name: str, whose: Mapping[str, str]) -> dict[str, str]:
    """The match fields of a silence of one alert: its rule, and what it is about, else whose that is, as far as its rule has them."""
    fields = silence_fields(rule)
    subject = {"job": "job_id", **{field: field for field in _OF_NAME}}.get(kind)
    if subject in fields:
        return {subject: name, "rule": rule}
    return {**{field: whose[field] for field in _WHOSE if field in fields and whose.get(field)}, "rule": rule}


def check_matched(match: Mapping[str, str]) -> None:
    """Check the match fields of a control about jobs.

    Raises:
        MalformedControlError: No job can have them.
    """
    if match.get("job_id") == "":
        raise MalformedControlError("job_id: it is empty, and every job has an id")


def check_silenced(match: Mapping[str, str]) -> None:
    """Check the match fields of a silence.

    Raises:
        MalformedControlError: No alert that can be silenced has them.
    """
    all_of(lambda: _check_severity(match.get("severity")), lambda: _check_rule(match.get("rule"), match))


def _check_severity(severity: str | None) -> None:
    if severity is not None and severity not in _SEVERITIES:
        raise MalformedControlError(
            f"severity: got {shown(severity)}, expected one of {', '.join(_SEVERITIES)}"
            f"{nearest(severity, _SEVERITIES)}"
        )


def _check_rule(rule: str | None, match: Mapping[str, str]) -> None:
    is_own = rule is not None and rule.startswith(OWN)
    if rule is not None and rule not in _RULES and not is_own:
        raise MalformedControlError(
            f"rule: got {shown(rule)}, expected one of {', '.join(_RULES)}{nearest(rule, _RULES)}"
        )
    if rule in NAMES:
        check_matched(match)
    elif rule is not None:
        known = _NAMES if is_own else _fields_of(rule)
        refuse_any(
            f"{field}: alerts of {rule} have none, expected {_one_of(known)}"
            for field, value in match.items()
            if value and field not in (*known, "rule", "severity")
        )


def _fields_of(rule: str) -> tuple[str, ...]:
    """The match fields that alerts of a rule on the ledger, or about budgets, may have."""
    if rule in BUDGET_NAMES:
        return (*_NAMES, "experiment")
    if LEDGER_RULES[rule].each == JOB:
        return _NAMES
    return tuple(field for field in _NAMES if field in LEDGER_RULES[rule].match_fields)


def _one_of(known: tuple[str, ...]) -> str:
    return f"one of {', '.join(known)}" if known else "`rule` and `severity` alone"
