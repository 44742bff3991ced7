"""Keeps the changes of alerts that a replay offers, and makes episodes of them."""

from __future__ import annotations

from collections.abc import Iterable

from streams.backtest.fired import FiredAlert
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.meter_rules import METER


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

    def episodes(self) -> tuple[FiredAlert, ...]:
        """The episodes in the order in which they began, without those about the meter itself."""
        by_id: dict[str, list[Alert]] = {}
        for alert in sorted(self._changes.values(), key=lambda alert: alert.changed_ms):
            if alert.subject_kind != METER:
                by_id.setdefault(alert.alert_id, []).append(alert)
        return tuple(sorted(map(_episode, by_id.values()), key=_order))


def _episode(changes: list[Alert]) -> FiredAlert:
    fired = [alert for alert in changes if alert.status == FIRING] or changes[:1]
    silenced = sum(alert.silenced for alert in fired)
    first = fired[0]
    return FiredAlert(
        rule=first.rule,
        severity=first.severity,
        subject_kind=first.subject_kind,
        subject=first.subject_name,
        started_ms=first.started_ms,
        resolved_ms=changes[-1].resolved_ms,
        summary=first.summary,
        messages=len(fired) - silenced,
        silenced=silenced,
    )


def _order(alert: FiredAlert) -> tuple[int, str, str, str]:
    return alert.started_ms, alert.rule, alert.subject_kind, alert.subject
