"""Compares alerts with labels, and counts them per rule: precision, recall, delay, cost until the first one.

Pure functions. Alerts that silences cover reach nobody, so they count as silenced only.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, NamedTuple

from schemas.durations import DAY_MS
from streams.backtest.fired import JOB, PAGE, TICKET, Backtest, Costs, CostSpan, Detection, FiredAlert
from streams.backtest.labels import Label

#: In place of a rule: whichever was first.
ANY_RULE: Final = "any rule"
ANY_PAGE: Final = "any page"


class Noise(NamedTuple):
    """Messages about some jobs that something fires, against the time that they ran."""

    jobs: int
    job_days: float
    pages: int
    tickets: int

    @property
    def pages_per_job_day(self) -> float:
        """0 if nothing ran."""
        return self.pages / self.job_days if self.job_days else 0.0

    @property
    def tickets_per_job_day(self) -> float:
        """0 if nothing ran."""
        return self.tickets / self.job_days if self.job_days else 0.0


@dataclass(frozen=True)
class RuleCount:
    """The alerts of one rule; `about_labels` is None without labels."""

    rule: str
    severity: str
    alerts: tuple[FiredAlert, ...]  # of which there was a message
    silenced: int  # messages that were kept back
    about_labels: int | None

    @property
    def messages(self) -> int:
        """How often they fired without a silence."""
        return sum(alert.messages for alert in self.alerts)

    @property
    def precision(self) -> float | None:
        """The share of the alerts that are about a label; None without alerts or labels."""
        return self.about_labels / len(self.alerts) if self.alerts and self.about_labels is not None else None


@dataclass(frozen=True)
class KindScore:
    """The labels of one kind under one rule, or under any."""

    kind: str
    rule: str
    detections: tuple[Detection, ...]  # one a label

    @property
    def recall(self) -> float:
        """The share of the labels with an alert."""
        return sum(each.first_ms is not None for each in self.detections) / len(self.detections)

    def delays_ms(self) -> list[int]:
        """The delays of those that were caught, sorted."""
        return sorted(each.delay_ms for each in self.detections if each.delay_ms is not None)

    def costs_usd(self) -> list[Decimal]:
        """What those that were caught cost until the first alert, sorted."""
        return sorted(each.cost_usd for each in self.detections if each.first_ms is not None)


def is_about(alert: FiredAlert, label: Label) -> bool:
    """Whether an alert began in the label's time, on its job."""
    return (
        alert.subject_kind == JOB
        and alert.subject == label.job_id
        and label.from_ms <= alert.started_ms < label.until_ms
    )


def noise_of(backtest: Backtest, without: Iterable[str] = ()) -> Noise:
    """The messages of all jobs but some; with such, alerts that are not about one job are left out."""
    left_out = frozenset(without)
    ran_ms = [ms for job, ms in backtest.ran_ms.items() if job not in left_out]
    counted = [
        alert
        for alert in backtest.alerts
        if not left_out or (alert.subject_kind == JOB and alert.subject not in left_out)
    ]
    pages, tickets = (
        sum(alert.messages for alert in counted if alert.severity == severity) for severity in (PAGE, TICKET)
    )
    return Noise(len(ran_ms), sum(ran_ms) / DAY_MS, pages, tickets)


def count_rules(backtest: Backtest, labels: Sequence[Label] | None) -> list[RuleCount]:
    """The count of each rule that fired, pages first, then by name."""
    of_job = _by_job(labels or ())
    by_rule: dict[tuple[str, str], list[FiredAlert]] = defaultdict(list)
    for alert in backtest.alerts:
        by_rule[alert.rule, alert.severity].append(alert)
    counts = []
    for (rule, severity), alerts in sorted(by_rule.items(), key=lambda item: (item[0][1], item[0][0])):
        sent = tuple(alert for alert in alerts if alert.messages)
        about = sum(any(is_about(alert, label) for label in of_job[alert.subject]) for alert in sent)
        silenced = sum(alert.silenced for alert in alerts)
        counts.append(RuleCount(rule, severity, sent, silenced, None if labels is None else about))
    return counts


def score_kinds(backtest: Backtest, labels: Sequence[Label], costs: Costs) -> list[KindScore]:
    """Return for each kind: by any rule, by any page, and by each rule that caught one of it."""
    alerts: dict[str, list[FiredAlert]] = defaultdict(list)
    for alert in backtest.alerts:
        if alert.subject_kind == JOB and alert.messages:
            alerts[alert.subject].append(alert)
    firsts = {label: _firsts(label, alerts[label.job_id]) for label in labels}
    spans = {
        CostSpan(label.job_id, label.from_ms, until_ms)
        for label, found in firsts.items()
        for until_ms in (*found.values(), label.until_ms)
    }
    usd = costs(sorted(spans))
    by_kind: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        by_kind[label.kind].append(label)
    scores = []
    for kind, of_kind in sorted(by_kind.items()):
        rules = sorted({rule for label in of_kind for rule in firsts[label]} - {ANY_RULE, ANY_PAGE})
        for rule in (ANY_RULE, ANY_PAGE, *rules):
            detections = tuple(_detection(label, firsts[label].get(rule), usd) for label in of_kind)
            scores.append(KindScore(kind, rule, detections))
    return scores


def _firsts(label: Label, alerts: Iterable[FiredAlert]) -> dict[str, int]:
    """The first tick of an alert about the label: by rule, of any rule, of any page."""
    found: dict[str, int] = {}
    for alert in alerts:
        if is_about(alert, label):
            names = (alert.rule, ANY_RULE, *([ANY_PAGE] if alert.severity == PAGE else []))
            for name in names:
                found[name] = min(found.get(name, alert.notified_ms), alert.notified_ms)
    return found


def _detection(label: Label, first_ms: int | None, usd: Mapping[CostSpan, Decimal]) -> Detection:
    until_ms = label.until_ms if first_ms is None else first_ms
    return Detection(label, first_ms, usd[CostSpan(label.job_id, label.from_ms, until_ms)])


def _by_job(labels: Iterable[Label]) -> dict[str, list[Label]]:
    found: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        found[label.job_id].append(label)
    return found
