"""Says for people what records of rules set, and which settings a job has.

It must not read a file or a log: records and the job's fields are handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from schemas.events import ControlEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.dimensions import MATCHED, AlertDimensions
from streams.engine.alerts.profiles import DEFAULT, Profile, RuleSettings
from streams.engine.alerts.rule_records import RuleRecord, profile_of
from streams.engine.alerts.rules import JOB_RULES, NAMES

EVERY_JOB: Final = "every job"


class SettingChange(NamedTuple):
    """One setting that a record changes."""

    record: str
    rule: str
    jobs: str
    setting: str
    default: str
    value: str


class ShownRule(NamedTuple):
    """The settings of a rule for some jobs."""

    rule: str
    jobs: str
    enabled: str
    severity: str
    thresholds: str
    record: str  # those that set it


def changed_settings(event: ControlEvent) -> list[SettingChange]:
    """Return what a valid record changes; one that changes nothing has no row."""
    found = []
    for record in Controls.from_events([event]).rules:
        before, jobs = DEFAULT.rules[record.rule], match_text(record.match)
        for setting, default, value in _settings(record, before):
            if value is not None and value != default:
                texts = _text(default), _text(value)
                found.append(SettingChange(record.name, NAMES[record.rule], jobs, setting, *texts))
    return found


def rules_in_force(events: Iterable[ControlEvent]) -> list[ShownRule]:
    """Return the settings of every rule for all jobs, and those of the records for some."""
    controls = Controls.from_events(events)
    common = [record for record in controls.rules if not record.match]
    rows = _rows(profile_of(common), EVERY_JOB, common)
    for record in sorted(controls.rules, key=lambda each: (each.rule, each.name)):
        if record.match:
            settings = profile_of([*common, record]).rules[record.rule]
            rows.append(_row(record.rule, settings, match_text(record.match), record.name))
    return rows


def rules_of_job(
    events: Iterable[ControlEvent], dimensions: AlertDimensions, labels: Sequence[tuple[str, str]]
) -> list[ShownRule]:
    """Return the settings of every rule for one job."""
    controls = Controls.from_events(events)
    matching = controls.rules_for(dimensions, labels)
    return _rows(controls.profile_for(dimensions, labels), dimensions.job_id, matching)


def dimensions_of_row(row: Mapping[str, object]) -> AlertDimensions:
    """Return what rules can match of a job from a row that has those columns."""
    known: dict[str, Any] = {field: str(row.get(field) or "") for field in MATCHED}
    return AlertDimensions(**known)


def match_text(match: Mapping[str, str]) -> str:
    """Return which jobs a record is for."""
    return " ".join(f"{field}={value}" for field, value in sorted(match.items())) or EVERY_JOB


def _rows(profile: Profile, jobs: str, records: Sequence[RuleRecord]) -> list[ShownRule]:
    return [
        _row(rule, settings, jobs, ", ".join(sorted(each.name for each in records if each.rule == rule)))
        for rule, settings in enumerate(profile.rules)
    ]


def _row(rule: int, settings: RuleSettings, jobs: str, record: str) -> ShownRule:
    names = JOB_RULES[rule].thresholds
    values = ", ".join(f"{name}={value:g}" for name, value in zip(names, settings.thresholds, strict=True))
    return ShownRule(
        NAMES[rule], jobs, _text(settings.enabled), settings.severity, values, record or "default"
    )


def _settings(
    record: RuleRecord, before: RuleSettings
) -> Iterable[tuple[str, bool | str | float, bool | str | float | None]]:
    yield "enabled", before.enabled, record.enabled
    yield "severity", before.severity, record.severity
    for name, default in zip(JOB_RULES[record.rule].thresholds, before.thresholds, strict=True):
        yield name, default, record.thresholds.get(name)


def _text(value: bool | str | float) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return value if isinstance(value, str) else f"{value:g}"
