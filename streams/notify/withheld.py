"""Alerts that fire and that a silence withholds: sent if it ends before they do.

Of an alert about a job that its own shard judges, the judge says so by a row; the others are looked at here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.rules.incident import RULE as INCIDENT
from streams.engine.rules.registry import NAMES
from streams.notify.firing import KEPT_AT_MOST

#: How often it is looked whether a silence is over.
LOOK_MS = 30_000


def has_row_of_end(alert: Alert) -> bool:
    """Whether the judge stores a row when a silence of the alert ends."""
    return alert.rule in NAMES


def too_little(alert: Alert) -> str:
    """Why nobody is notified of an alert for the digest, in words."""
    if alert.rule == INCIDENT.name:
        return "its alerts are about too few dollars, or usual for their kinds"
    return "too few dollars"


class WithheldAlerts:
    """The newest row of each alert of our shards that fires under a silence; those beyond `at_most` stay silent."""

    def __init__(self, now_ms: int, at_most: int = KEPT_AT_MOST) -> None:
        """`now_ms`: monotonic."""
        self._at_most = at_most
        self._alerts: dict[str, tuple[Alert, int]] = {}
        self._due_ms = now_ms + LOOK_MS

    def __contains__(self, alert_id: str) -> bool:
        return alert_id in self._alerts

    def note(self, alert: Alert, shard: int) -> None:
        """Take note of a change of status."""
        if alert.status != FIRING or not alert.silenced:
            self._alerts.pop(alert.alert_id, None)
        elif alert.alert_id in self._alerts or len(self._alerts) < self._at_most:
            self._alerts[alert.alert_id] = alert, shard

    def release(self, shards: Collection[int]) -> None:
        """Forget the alerts of shards that are no longer ours."""
        self._alerts = {key: each for key, each in self._alerts.items() if each[1] not in shards}

    def due_ms(self) -> int | None:
        """Return when to look again (monotonic ms); None: nothing is withheld."""
        return self._due_ms if self._alerts else None

    def ended(self, now_ms: int, is_silenced: Callable[[Alert], bool]) -> list[tuple[Alert, int]]:
        """The alerts, and their shards, that no silence covers any more, once in an interval."""
        if not self._alerts or now_ms < self._due_ms:
            return []
        self._due_ms = now_ms + LOOK_MS
        looked_at = (each for each in self._alerts.values() if not has_row_of_end(each[0]))
        return [(alert, shard) for alert, shard in looked_at if not is_silenced(alert)]
