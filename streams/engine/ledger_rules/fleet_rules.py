"""The rules across jobs that are judged by the hour, their settings, and their episodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import FIRING, Alert, alert_id
from streams.engine.alerts.malformed import MalformedControlError
from streams.engine.alerts.resolving import resolved
from streams.engine.alerts.rule_fields import rule_fields_of
from streams.engine.alerts.rules import PAGE, TICKET, JobRule, Threshold
from streams.engine.kernels.bill import MAX_COST_NANO

TEAM_BURN: Final = "team_burn"
RETRY_OVERHEAD: Final = "retry_overhead"
UNALLOCATED: Final = "unallocated"
OWNER_COVERAGE: Final = "owner_coverage"
FORGOTTEN_NODE: Final = "forgotten_node"
PROVISIONING_BURST: Final = "provisioning_burst"
OVERSIZED: Final = "oversized"
UNUSUAL_LENGTH: Final = "unusual_length"
PRICE_JUMP: Final = "price_jump"
UNSAMPLED_GPUS: Final = "unsampled_gpus"
MISSING_PRICE: Final = "missing_price"
NOT_UNDERSTOOD: Final = "not_understood"
#: What each of them judges by itself; the others judge the fleet, `team_burn` also those whom a record matches.
EACH_BY_ITSELF: Final[Mapping[str, str]] = {
    **dict.fromkeys((RETRY_OVERHEAD, OVERSIZED, UNUSUAL_LENGTH, UNSAMPLED_GPUS), "job"),
    FORGOTTEN_NODE: "node",
    PRICE_JUMP: "sku",
    MISSING_PRICE: "missing price",
    NOT_UNDERSTOOD: "cause of a source",
}

#: By name; the figures are those of an hour.
FLEET_RULES: Final[Mapping[str, JobRule]] = {
    rule.name: rule
    for rule in (
        JobRule(
            TEAM_BURN,
            TICKET,
            {
                "usd_per_hour": Threshold(0, 0, 1e9, "dollars in an hour; 0: not looked at"),
                "share_ratio": Threshold(0, 0, 1, "share of what all jobs cost in an hour; 0: not looked at"),
            },
            HOUR_MS,
        ),
        JobRule(
            RETRY_OVERHEAD,
            TICKET,
            {
                "lost_ratio": Threshold(0.1, 0.001, 1, "lost share of the job's cost"),
                "least_usd": Threshold(10, 0.01, 1e9, "dollars lost"),
                "attempts": Threshold(3, 1, 1000, "attempts that broke off and lost something", True),
            },
            HOUR_MS,
        ),
        JobRule(
            UNALLOCATED,
            TICKET,
            {
                "idle_ratio": Threshold(
                    0.05, 0.001, 1, "share of what nodes cost in an hour that no job used"
                ),
                "least_usd": Threshold(1, 0.01, 1e9, "dollars of it"),
            },
            HOUR_MS,
        ),
        JobRule(
            OWNER_COVERAGE,
            TICKET,
            {
                "owned_ratio": Threshold(
                    0.95, 0.01, 1, "share of what jobs cost in an hour that has an owner"
                ),
                "least_usd": Threshold(1, 0.01, 1e9, "dollars that all jobs cost in that hour"),
            },
            HOUR_MS,
        ),
        JobRule(
            FORGOTTEN_NODE,
            TICKET,
            {"hours": Threshold(6, 1, 168, "whole hours in which a paid node had no job", True)},
            HOUR_MS,
        ),
        JobRule(PROVISIONING_BURST, PAGE, {}, HOUR_MS),
        JobRule(
            OVERSIZED,
            TICKET,
            {
                "factor": Threshold(5, 1.1, 1e6, "first rate / median of those of similar jobs"),
                "jobs": Threshold(10, 1, 200, "similar jobs that began in earlier hours", True),
            },
            HOUR_MS,
        ),
        JobRule(
            UNUSUAL_LENGTH,
            TICKET,
            {
                "factor": Threshold(2, 1.1, 1e6, "its run time / p99 of those of similar completed jobs"),
                "jobs": Threshold(20, 1, 1000, "similar jobs that were completed before", True),
                "least_usd": Threshold(10, 0.01, 1e9, "dollars that it has cost"),
            },
            HOUR_MS,
        ),
        JobRule(
            PRICE_JUMP,
            TICKET,
            {"factor": Threshold(3, 1.01, 1e6, "a revision / the one before, or back")},
            HOUR_MS,
        ),
        JobRule(
            UNSAMPLED_GPUS,
            TICKET,
            {
                # Samples of the last ten minutes of an hour may still come.
                "unsampled_ratio": Threshold(
                    0.5, 0.17, 1, "share of the GPU-time that it held in an hour without samples"
                ),
                "cluster_ratio": Threshold(
                    0.8, 0.01, 1, "sampled share of the GPU-time of the other jobs of its cluster"
                ),
            },
            HOUR_MS,
        ),
        JobRule(
            MISSING_PRICE,
            TICKET,
            {"traffic": Threshold(1, 0, 1, "1: traffic without a price counts, too; 0: GPU-time only", True)},
            HOUR_MS,
        ),
        JobRule(NOT_UNDERSTOOD, TICKET, {}, HOUR_MS),
    )
}


class FleetRuleRecord(NamedTuple):
    """What a record sets of such a rule; None: it leaves that. Only `team_burn` has match fields."""

    name: str
    match: Mapping[str, str]
    rule: str
    enabled: bool | None
    severity: str | None
    thresholds: Mapping[str, float]


class FleetSettings(NamedTuple):
    """The settings of one rule."""

    enabled: bool
    severity: str
    thresholds: Mapping[str, float]


def is_fleet_rule(name: str, value: Mapping[str, object]) -> bool:
    """Return whether a control of kind `rule` is about one of these rules; `rule` is the record's name if it is absent."""
    rule = value.get("rule")
    return (name if rule is None else rule) in tuple(FLEET_RULES)


def fleet_rule_record_of(name: str, value: Mapping[str, object], match: Mapping[str, str]) -> FleetRuleRecord:
    """Build a record from its fields.

    Raises:
        MalformedControlError: A field is invalid.
    """
    rule = FLEET_RULES[str(name if value.get("rule") is None else value["rule"])]
    if match and rule.name != TEAM_BURN:
        raise MalformedControlError(f"{rule.name} is about the whole fleet: it takes no match fields")
    if match.keys() - {"team", "owner", "project", "experiment"}:
        raise MalformedControlError("team_burn matches on team, owner, project and experiment")
    enabled, severity, thresholds = rule_fields_of(rule, value)
    return FleetRuleRecord(name, match, rule.name, enabled, severity, thresholds)


def settings_of(rule: str, records: Iterable[FleetRuleRecord]) -> FleetSettings:
    """Return the settings of a rule; of several records the one with the smallest name wins."""
    known = FLEET_RULES[rule]
    enabled, severity = known.enabled, known.severity
    thresholds = {name: each.default for name, each in known.thresholds.items()}
    for record in sorted(records, key=lambda each: each.name, reverse=True):
        if record.rule == rule:
            enabled = enabled if record.enabled is None else record.enabled
            severity = record.severity or severity
            thresholds |= record.thresholds
    return FleetSettings(enabled, severity, thresholds)


class HourFinding(NamedTuple):
    """A rule holds for a subject in the hour that ends at `at_ms`."""

    rule: str
    severity: str
    subject_kind: str
    subject_name: str
    at_ms: int
    summary: str
    evidence_sql: str
    ratio: float = 0.0
    usd_nano_per_hour: int = 0
    cost_nano: int = 0
    owner: str = ""
    team: str = ""
    project: str = ""

    @property
    def subject(self) -> tuple[str, str, str]:
        """Return what an episode belongs to."""
        return self.rule, self.subject_kind, self.subject_name


def hourly_changes(
    firing: Sequence[Alert], found: Iterable[HourFinding], hours: Sequence[int]
) -> list[Alert]:
    """Return the changes at these instants (ends of hours, ascending): an episode lasts while its rule holds."""
    now = {(alert.rule, alert.subject_kind, alert.subject_name): alert for alert in firing}
    at: dict[int, dict[tuple[str, str, str], HourFinding]] = {}
    for each in found:
        at.setdefault(each.at_ms, {})[each.subject] = each
    changes: list[Alert] = []
    for at_ms in hours:
        holding = at.get(at_ms, {})
        over = [subject for subject, row in now.items() if subject not in holding and row.changed_ms < at_ms]
        changes += [resolved(now.pop(subject), at_ms) for subject in over]
        for subject, each in sorted(holding.items()):
            if subject not in now:
                now[subject] = opened(each)
                changes.append(now[subject])
    return changes


def opened(found: HourFinding) -> Alert:
    """Return the alert that a finding opens."""
    return Alert(
        alert_id=alert_id(found.rule, found.subject_kind, found.subject_name, found.at_ms),
        rule=found.rule,
        severity=found.severity,
        status=FIRING,
        subject_kind=found.subject_kind,
        subject_name=found.subject_name,
        owner=found.owner,
        team=found.team,
        project=found.project,
        started_ms=found.at_ms,
        resolved_ms=None,
        ratio=round(found.ratio, 9),
        usd_nano_per_hour=min(max(found.usd_nano_per_hour, 0), MAX_COST_NANO),
        expected_nano_per_hour=0,
        cost_nano=min(max(found.cost_nano, 0), MAX_COST_NANO),
        window_ms=HOUR_MS,
        summary=found.summary,
        evidence_sql=found.evidence_sql,
        held_ms=found.at_ms,
        changed_ms=found.at_ms,
        firings=1,
        silenced=False,
    )
