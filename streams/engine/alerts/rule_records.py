"""Settings of rules from the records of `controls`: which rule, for which jobs, and what is changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.refusal import nearest, shown
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.rule_fields import rule_fields_of
from streams.engine.rules.profiles import DEFAULT, Profile, RuleSettings
from streams.engine.rules.registry import JOB_RULES, LEDGER_RULES, NAMES
from streams.engine.rules.rule import USUAL_RATIO
from streams.engine.state.dimensions import MATCHED

#: The fields of a record that match nothing.
OWN_FIELDS: Final = frozenset({"rule", "enabled", "severity", "thresholds", "comment", "match"})
#: Match fields that are not stored of a job: a record that sets what is usual cannot match them.
UNSTORED: Final = frozenset({"zone", "account"})
#: A match field `label.NAME` is a label of the job.
LABEL: Final = "label."
_KNOWN: Final = (*NAMES, *LEDGER_RULES)


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
        raise MalformedControlError(
            f"{what}: got {shown(rule)}, expected one of {', '.join(_KNOWN)}{nearest(rule, _KNOWN)}"
        )
    number = NAMES.index(rule)
    fields = rule_fields_of(JOB_RULES[number], value)
    if USUAL_RATIO in fields.thresholds and (unknown := UNSTORED & match.keys()):
        raise MalformedControlError(
            f"match: {', '.join(sorted(unknown))}: {USUAL_RATIO} goes by what is stored of a job, which has no such field"
        )
    return RuleRecord(name, match, number, *fields)


def facts_to_match(
    dimensions: Mapping[str, str], labels: Iterable[tuple[str, str]] | None
) -> Mapping[str, str]:
    """What a record can match of a job."""
    named = {LABEL + name: value for name, value in labels or ()}
    return _Dimensions({field: dimensions[field] for field in MATCHED} | named)


def profile_of(records: Iterable[RuleRecord]) -> Profile:
    """The settings of a job that these records match.

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
