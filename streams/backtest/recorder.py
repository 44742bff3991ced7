"""Keeps the changes of alerts that a replay offers, and makes episodes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from streams.backtest.fired import FiredAlert
from streams.engine.alerts.alert import FIRING, Alert, is_withheld
from streams.engine.alerts.meter_rules import METER
from streams.engine.rules.incident import RULE as INCIDENT
from streams.engine.rules.rule import JOB
from streams.notify.history import SharedCauseRow, StoredDeliveries
from streams.notify.incident_hold import CauseAlerts, inhibited_by, inhibitors_in_runs, wait_of
from streams.notify.options import NotifierOptions


class AlertRecorder:
    """An alert sink that remembers."""

    def __init__(self) -> None:
        self._changes: dict[tuple[str, str, int], Alert] = {}

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Keep these changes of status; a repeated one counts once."""
        for alert in alerts:
            self._changes.setdefault((alert.alert_id, alert.status, alert.changed_ms), alert)

    def resume_receipts(self) -> None:
        """Do nothing."""

    def resume(self, shards: Iterable[int]) -> None:
        """Do nothing: a replay into an empty store resumes nothing."""

    def release(self, shards: Iterable[int]) -> None:
        """Do nothing: nobody takes over."""

    def episodes(self, records: StoredDeliveries) -> tuple[FiredAlert, ...]:
        """The episodes in the order in which they began, without those about the meter itself.

        Args:
            records: What the replay stored, which knows the runs of jobs.
        """
        by_id: dict[str, list[Alert]] = {}
        for alert in sorted(self._changes.values(), key=lambda alert: alert.changed_ms):
            if alert.subject_kind != METER:
                by_id.setdefault(alert.alert_id, []).append(alert)
        episodes = [changes for _, changes in sorted(by_id.items())]
        causes = _causes(episodes)
        ends = [changes[-1] for changes in episodes]
        ends += inhibitors_in_runs(records, ends)
        found = (_episode(changes, causes, ends) for changes in episodes)
        return tuple(sorted(found, key=_order))


def _causes(episodes: Iterable[Sequence[Alert]]) -> dict[str, list[SharedCauseRow]]:
    """The episodes of each cause that alerts share."""
    causes: dict[str, list[SharedCauseRow]] = {}
    for changes in episodes:
        first, last = changes[0], changes[-1]
        if first.shared_cause:
            causes.setdefault(first.shared_cause, []).append(
                SharedCauseRow(
                    first.shared_cause, first.alert_id, first.rule, first.subject_kind, first.subject_name,
                    first.started_ms, last.resolved_ms,
                )
            )  # fmt: skip
    return causes


def _is_covered(alert: Alert, causes: Mapping[str, Sequence[SharedCauseRow]]) -> bool:
    """Whether another alert tells of its cause, by what is known when the wait for others, of the default length, is over."""
    if not alert.shared_cause or alert.subject_kind != JOB:
        return False
    by_ms = alert.started_ms + wait_of(alert, NotifierOptions.incident_wait_ms)
    known = [row for row in causes[alert.shared_cause] if row.started_ms <= by_ms]
    return bool(CauseAlerts(known).covered_by(alert, round(INCIDENT.thresholds["jobs"].default)))


def _episode(
    changes: list[Alert], causes: Mapping[str, Sequence[SharedCauseRow]], ends: Sequence[Alert]
) -> FiredAlert:
    fired = [alert for alert in changes if alert.status == FIRING] or changes[:1]
    is_covered = _is_covered(fired[0], causes) or inhibited_by(fired[0], ends)
    sent = [] if is_covered else [alert for alert in fired if not is_withheld(alert)]
    first = fired[0]
    return FiredAlert(
        rule=first.rule,
        severity=first.severity,
        subject_kind=first.subject_kind,
        subject=first.subject_name,
        started_ms=first.started_ms,
        resolved_ms=changes[-1].resolved_ms,
        summary=first.summary,
        messages=len(sent),
        silenced=sum(alert.silenced for alert in fired),
    )


def _order(alert: FiredAlert) -> tuple[int, str, str, str]:
    return alert.started_ms, alert.rule, alert.subject_kind, alert.subject
