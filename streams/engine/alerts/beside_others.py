"""Says why a control would change nothing beside those that are in force: it has ended, or sets what holds anyway.

Each record is valid by itself; what is wrong with one that is not, `ineffective` says.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.events import ControlEvent
from schemas.refusal import nearest, shown
from streams.engine.alerts.alert import ADDRESS_KINDS
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord
from streams.engine.alerts.planned import FOR_EVER_MS
from streams.engine.alerts.receiver_records import KINDS as RECEIVER_KINDS
from streams.engine.alerts.receiver_records import receiver_record_of
from streams.engine.alerts.rule_records import RuleRecord
from streams.engine.kernels.burn import WINDOWS_MS
from streams.engine.rules.formatting import instant
from streams.engine.rules.registry import BY_NAME, LEDGER_RULES, NAMES

_WITH_END: Final = ("silence", "planned", "override", "ack")
#: A planned rate is looked at for as long as a window contains its interval.
_LOOKED_AT_MS: Final = {"planned": WINDOWS_MS[-1]}


def fault_beside(
    event: ControlEvent, replaced: ControlEvent | None, others: Iterable[ControlEvent], now_ms: int
) -> str | None:
    """Why a control would change nothing if it was published now; None: it changes something.

    A control that changes something beside no others does so beside any.

    Args:
        event: A control that is valid by itself.
        replaced: The one of its kind and name that is in force.
        others: Those of other names that are in force, or will be.
        now_ms: Ms since 1970.
    """
    if event.kind in _WITH_END and has_ended(event, now_ms):
        goes_on = replaced is not None and not has_ended(replaced, now_ms)
        return None if goes_on else ended_detail(event)
    if event.kind == "rule":
        return _unchanged_rule(event, replaced, others)
    if event.kind in RECEIVER_KINDS:
        # One without addresses takes them from an owner who had any.
        had = replaced is not None and _has_address(replaced)
        return (
            None
            if had or _has_address(event)
            else f"{ADDRESS_KINDS[0]}: expected at least one of {', '.join((*ADDRESS_KINDS, 'escalate'))}"
        )
    if event.kind == "override":
        return _override_fault(event, others)
    return None


def _unchanged_rule(
    event: ControlEvent, replaced: ControlEvent | None, others: Iterable[ControlEvent]
) -> str | None:
    asked = _rule_of(event)
    if asked is None or _rule_fault(asked, ()) is None:
        return None  # beside any others
    beside = [found for each in others if (found := _rule_of(each)) is not None]
    before = None if replaced is None else _rule_of(replaced)
    is_reset = before is not None and _rule_fault(before, beside) is None
    return None if is_reset else _rule_fault(asked, beside)


def has_ended(event: ControlEvent, now_ms: int) -> bool:
    """Whether a control applies to nothing any more."""
    until_ms = event.value.get("until_ms")
    if event.kind not in _WITH_END or not isinstance(until_ms, int):
        return False
    return min(until_ms, FOR_EVER_MS) + _LOOKED_AT_MS.get(event.kind, 0) <= now_ms


def ended_detail(event: ControlEvent) -> str:
    """Return what is wrong with a control that has ended, and ends none."""
    until_ms = event.value["until_ms"]
    assert isinstance(until_ms, int)
    return (
        f"until_ms: it ended at {instant(until_ms)}, and no {event.kind} of this name goes on that it would end;"
        " set a later end, or leave it out"
    )


class _Rule(NamedTuple):
    """What a record sets of a rule, by the names of its fields."""

    name: str
    rule: str
    match: Mapping[str, str]
    settings: Mapping[str, bool | str | float]


def _rule_of(event: ControlEvent) -> _Rule | None:
    """What a control sets of a rule; None: it is about none, or has no effect."""
    if event.kind != "rule":
        return None
    controls = Controls.from_events([event])
    records: list[RuleRecord | LedgerRuleRecord] = [*controls.rules, *controls.fleet_rules]
    for record in records:
        rule = record.rule if isinstance(record, LedgerRuleRecord) else NAMES[record.rule]
        settings: dict[str, bool | str | float] = {}
        if record.enabled is not None:
            settings["enabled"] = record.enabled
        if record.severity is not None:
            settings["severity"] = record.severity
        settings |= {f"thresholds.{name}": value for name, value in record.thresholds.items()}
        return _Rule(record.name, rule, record.match, settings)
    return None


def _rule_fault(asked: _Rule, beside: Iterable[_Rule]) -> str | None:
    """Why settings are the defaults wherever they apply; None: somewhere they are not."""
    rule = BY_NAME[asked.rule]
    if not asked.settings:
        return "rule: it sets nothing, expected at least one of enabled, severity, thresholds"
    defaults: dict[str, bool | str | float] = {"enabled": rule.enabled, "severity": rule.severity}
    defaults |= {f"thresholds.{name}": each.default for name, each in rule.thresholds.items()}
    if any(value != defaults[name] for name, value in asked.settings.items()):
        return None
    for other in beside:
        if _is_above(asked, other) and any(
            other.settings.get(name, value) != value for name, value in asked.settings.items()
        ):
            return None
    said = ", ".join(
        f"{name.removeprefix('thresholds.')} {shown(value)}" for name, value in asked.settings.items()
    )
    return (
        f"{next(iter(asked.settings)).partition('.')[0]}: it sets the defaults of {asked.rule} ({said}), and no record that"
        " it would override sets anything else; leave it out"
    )


def _is_above(asked: _Rule, other: _Rule) -> bool:
    """Whether a record's settings count before those of another one, of jobs that both match."""
    if asked.rule != other.rule or asked.name == other.name:
        return False
    if asked.rule in LEDGER_RULES:
        return not LEDGER_RULES[asked.rule].match_fields and asked.name < other.name
    both = all(other.match.get(field, wanted) == wanted for field, wanted in asked.match.items())
    return both and (-len(asked.match), asked.name) < (-len(other.match), other.name)


def _has_address(event: ControlEvent) -> bool:
    found, _ = receiver_record_of(event.value)
    return bool(found.addresses or found.escalation)


def _override_fault(event: ControlEvent, others: Iterable[ControlEvent]) -> str | None:
    budget = event.value.get("budget")
    if not isinstance(budget, str) or not budget.strip():
        return None
    known = {each.name for each in others if each.kind == "budget"}
    if budget.strip() in known:
        return None
    return f"budget: got {shown(budget)}, and no budget of that name is in force{nearest(budget.strip(), sorted(known))}"
