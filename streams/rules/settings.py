"""Says for people what records of rules set, and which settings a job has.

Records and the job's fields are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import LedgerRuleRecord, settings_of
from streams.engine.alerts.rule_records import RuleRecord, profile_of
from streams.engine.rules.finding import LedgerSettings
from streams.engine.rules.formatting import span
from streams.engine.rules.profiles import DEFAULT, Profile, RuleSettings
from streams.engine.rules.registry import JOB_RULES, LEDGER_RULES, NAMES
from streams.engine.rules.rule import JOB, PAGE, PAGE_FROM, TICKET
from streams.engine.state.dimensions import MATCHED, AlertDimensions

EVERY_JOB: Final = "every job"
FLEET: Final = "the fleet"
#: The severity where a threshold of dollars decides it.
BY_DOLLARS: Final = "by dollars"
#: Of rules by SQL.
_OWN_SUBJECTS: Final = "what it finds"


class SettingChange(NamedTuple):
    """One setting that a record changes."""

    record: str
    rule: str
    subjects: str
    setting: str
    default: str
    value: str


class ShownRule(NamedTuple):
    """The settings of a rule for what it judges: some jobs, every job, every node, the fleet."""

    rule: str
    subjects: str
    enabled: str
    severity: str
    thresholds: str
    record: str  # those that set it


def changed_settings(event: ControlEvent) -> list[SettingChange]:
    """What a valid record changes; one that changes nothing has no row."""
    controls = Controls.from_events([event])
    found: list[SettingChange] = []
    for record in controls.rules:
        before = _of_job_rule(record.rule, DEFAULT.rules[record.rule])
        found += _changed(record, NAMES[record.rule], EVERY_JOB, before)
    for each in controls.fleet_rules:
        found += _changed(each, each.rule, _subjects(each.rule), settings_of(each.rule, []))
    for own in controls.own_rules:
        found.append(SettingChange(own.name, own.rule, _OWN_SUBJECTS, "every", "", span(own.every_ms)))
        if own.severity != TICKET:
            found.append(SettingChange(own.name, own.rule, _OWN_SUBJECTS, "severity", TICKET, own.severity))
    return found


def rules_in_force(events: Iterable[ControlEvent]) -> list[ShownRule]:
    """The settings of every rule for all jobs, those of the records for some, and those of the rules across jobs."""
    controls = Controls.from_events(events)
    common = [record for record in controls.rules if not record.match]
    rows = _rows(profile_of(common), EVERY_JOB, common)
    for record in sorted(controls.rules, key=lambda each: (each.rule, each.name)):
        if record.match:
            settings = _of_job_rule(record.rule, profile_of([*common, record]).rules[record.rule])
            rows.append(_row(NAMES[record.rule], settings, match_text(record.match), [record.name]))
    own = [
        ShownRule(
            each.rule, _OWN_SUBJECTS, _text(True), each.severity, f"every {span(each.every_ms)}", each.name
        )
        for each in controls.own_rules
    ]
    return [*rows, *_fleet_rows(controls.fleet_rules, LEDGER_RULES), *own]


def rules_of_job(
    events: Iterable[ControlEvent], dimensions: AlertDimensions, labels: Sequence[tuple[str, str]]
) -> list[ShownRule]:
    """The settings of every rule that judges the job, or the jobs that it is one of."""
    controls = Controls.from_events(events)
    facts = dimensions._asdict()
    of_fleet = [
        record
        for record in controls.fleet_rules
        if all(facts[field] == wanted for field, wanted in record.match.items())
    ]
    matching = controls.rules_for(dimensions, labels)
    rows = _rows(controls.profile_for(dimensions, labels), dimensions.job_id, matching)
    of_job = [name for name, rule in LEDGER_RULES.items() if rule.match_fields or rule.each == JOB]
    return rows + _fleet_rows(of_fleet, of_job)


def dimensions_of_row(row: Mapping[str, object]) -> AlertDimensions:
    """What rules can match of a job from a row that has those columns."""
    known: dict[str, Any] = {field: str(row.get(field) or "") for field in MATCHED}
    return AlertDimensions(**known)


def match_text(match: Mapping[str, str], all_of_them: str = EVERY_JOB) -> str:
    """What a record is for: its match fields, or all."""
    return " ".join(f"{field}={value}" for field, value in sorted(match.items())) or all_of_them


def _rows(profile: Profile, subjects: str, records: Sequence[RuleRecord]) -> list[ShownRule]:
    return [
        _row(
            NAMES[rule],
            _of_job_rule(rule, settings),
            subjects,
            [each.name for each in records if each.rule == rule],
        )
        for rule, settings in enumerate(profile.rules)
    ]


def _fleet_rows(records: Sequence[LedgerRuleRecord], rules: Iterable[str]) -> list[ShownRule]:
    """The settings of rules across jobs; each record of a rule that takes match fields is a limit of its own."""
    rows = []
    for rule in rules:
        of_rule = sorted((each for each in records if each.rule == rule), key=lambda each: each.name)
        if LEDGER_RULES[rule].match_fields and of_rule:
            rows += [
                _row(rule, settings_of(rule, [each]), match_text(each.match, FLEET), [each.name])
                for each in of_rule
            ]
        else:
            names = [each.name for each in of_rule]
            rows.append(_row(rule, settings_of(rule, of_rule), _subjects(rule), names))
    return rows


def _subjects(rule: str) -> str:
    """What a rule across jobs judges where no record narrows it."""
    return f"every {LEDGER_RULES[rule].each}" if LEDGER_RULES[rule].each else FLEET


def _of_job_rule(rule: int, settings: RuleSettings) -> LedgerSettings:
    thresholds = dict(zip(JOB_RULES[rule].thresholds, settings.thresholds, strict=True))
    return LedgerSettings(settings.enabled, settings.severity, thresholds)


def _row(rule: str, settings: LedgerSettings, subjects: str, records: Sequence[str]) -> ShownRule:
    values = ", ".join(f"{name}={value:g}" for name, value in settings.thresholds.items())
    by = ", ".join(sorted(records)) or "default"
    return ShownRule(rule, subjects, _text(settings.enabled), _severity(settings), values, by)


def _severity(settings: LedgerSettings) -> str:
    """What an alert is: by its dollars where these decide between a ticket and a page."""
    page_usd = settings.thresholds.get(PAGE_FROM)
    if page_usd is None or settings.severity == PAGE:
        return settings.severity
    return BY_DOLLARS if page_usd else PAGE


def _changed(
    record: RuleRecord | LedgerRuleRecord, rule: str, all_of_them: str, before: LedgerSettings
) -> Iterable[SettingChange]:
    subjects = match_text(record.match, all_of_them)
    defaults: dict[str, bool | str | float] = {
        "enabled": before.enabled,
        "severity": before.severity,
        **before.thresholds,
    }
    given: dict[str, bool | str | float | None] = {"enabled": record.enabled, "severity": record.severity}
    given |= record.thresholds
    for setting, default in defaults.items():
        value = given.get(setting)
        if value is not None and value != default:
            yield SettingChange(record.name, rule, subjects, setting, _text(default), _text(value))


def _text(value: bool | str | float) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}"
