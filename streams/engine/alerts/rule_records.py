"""Settings of rules from the records of `controls`: which rule, for which jobs, and what is changed.

It must not judge, and it leaves what a record does not name as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.refusal import shown
from streams.engine.alerts.dimensions import MATCHED
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.profiles import DEFAULT, Profile, RuleSettings
from streams.engine.alerts.rules import JOB_RULES, NAMES, PAGE, TICKET

#: The fields of a record that match nothing.
OWN_FIELDS: Final = frozenset({"rule", "enabled", "severity", "thresholds", "comment", "match"})
#: A match field `label.NAME` is a label of the job.
LABEL: Final = "label."
_SEVERITIES: Final = (PAGE, TICKET)


class RuleRecord(NamedTuple):
    """What a record changes of a rule for the jobs that match; None: it leaves that."""

    name: str
    match: Mapping[str, str]
    rule: int
    enabled: bool | None
    severity: str | None
    thresholds: Mapping[str, float]


class _Dimensions(dict[str, str]):
    """A job's match fields; a label that it lacks is ''."""

    def __missing__(self, _field: str) -> str:
        return ""


def rule_record_of(name: str, value: Mapping[str, object], match: Mapping[str, str]) -> RuleRecord:
    """Build a record from its fields; `rule` is the record's name if it is absent.

    Raises:
        MalformedControlError: A field is invalid; the message names it, and what is allowed.
    """
    wanted = value.get("rule")
    rule = name if wanted is None else wanted
    if not isinstance(rule, str) or rule not in NAMES:
        what = "rule" if wanted is not None else "name (without a field `rule`)"
        raise MalformedControlError(f"{what}: got {shown(rule)}, expected one of {', '.join(NAMES)}")
    enabled = value.get("enabled")
    if not (enabled is None or isinstance(enabled, bool)):
        raise MalformedControlError(f"enabled: got {shown(enabled)}, expected true or false")
    severity = value.get("severity")
    if not (severity is None or (isinstance(severity, str) and severity in _SEVERITIES)):
        raise MalformedControlError(
            f"severity: got {shown(severity)}, expected one of {', '.join(_SEVERITIES)}"
        )
    number = NAMES.index(rule)
    return RuleRecord(name, match, number, enabled, severity, _thresholds(number, value.get("thresholds")))


def _thresholds(rule: int, given: object) -> dict[str, float]:
    known = JOB_RULES[rule].thresholds
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise MalformedControlError(f"thresholds: expected an object of {', '.join(known)}")
    found: dict[str, float] = {}
    for name, value in given.items():
        if name not in known:
            raise MalformedControlError(
                f"thresholds.{shown(name)}: {NAMES[rule]} has no such threshold, expected one of {', '.join(known)}"
            )
        threshold = known[name]
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


def facts_to_match(
    dimensions: Mapping[str, str], labels: Iterable[tuple[str, str]] | None
) -> Mapping[str, str]:
    """Return what a record can match of a job."""
    named = {LABEL + name: value for name, value in labels or ()}
    return _Dimensions({field: dimensions[field] for field in MATCHED} | named)


def profile_of(records: Iterable[RuleRecord]) -> Profile:
    """Return the settings of a job that these records match.

    Of several that change one setting the one with the most match fields wins, of those the one with the smallest name.
    """
    rules = list(DEFAULT.rules)
    for record in sorted(records, key=_weakest_last, reverse=True):
        before, names = rules[record.rule], JOB_RULES[record.rule].thresholds
        rules[record.rule] = RuleSettings(
            before.enabled if record.enabled is None else record.enabled,
            before.severity if record.severity is None else record.severity,
            tuple(
                record.thresholds.get(name, value)
                for name, value in zip(names, before.thresholds, strict=True)
            ),
        )
    return Profile(tuple(rules))


def _weakest_last(record: RuleRecord) -> tuple[int, str]:
    return -len(record.match), record.name
