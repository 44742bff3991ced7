"""Alerts that changed and are not stored yet: the newest row of each, and the changes of status to send.

It must not judge, nor give a row out twice.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from streams.engine.alerts.alert import Alert, is_change, last_ms
from streams.engine.alerts.rows import alerts_table


class UnstoredAlerts:
    """Of one shard; true while a row waits."""

    def __init__(self) -> None:
        self._current: dict[str, Alert] = {}  # by alert
        self._changes: list[Alert] = []  # of status, in order
        # By alert: the tick of its row in the store, where that is ahead of ours, and the newest row of our own.
        self._stored_ms: dict[str, int] = {}
        self._behind: dict[str, Alert] = {}

    def __bool__(self) -> bool:
        return bool(self._current)

    @property
    def any_changed(self) -> bool:
        """Whether people are to hear of any."""
        return bool(self._changes)

    def add(self, alert: Alert) -> None:
        """Another row of an alert.

        One that is older than what an earlier owner stored is kept back: if this owner ended before it came so far,
        the next one, whose snapshot is newer, would have no reason to write again what it took the place of.
        """
        if last_ms(alert) < self._stored_ms.get(alert.alert_id, last_ms(alert)):
            self._behind[alert.alert_id] = alert
        else:
            self._add(alert)

    def mark_stored(self, stored_ms: Mapping[str, int]) -> None:
        """Earlier owners stored rows of these alerts as of these ticks, and sent them."""
        for alert, at_ms in stored_ms.items():
            self._stored_ms[alert] = max(at_ms, self._stored_ms.get(alert, at_ms))

    def judged(self, until_ms: int) -> None:
        """All ticks up to this one are judged: what is stored as of one of them is no longer ahead."""
        for alert in [alert for alert, at_ms in self._stored_ms.items() if at_ms <= until_ms]:
            del self._stored_ms[alert]
            row = self._behind.pop(alert, None)
            if row is not None:
                self._add(row)

    def dump(self) -> dict[str, int]:
        """What is stored ahead of us, for the next owner."""
        return dict(self._stored_ms)

    def _add(self, alert: Alert) -> None:
        self._behind.pop(alert.alert_id, None)
        self._current[alert.alert_id] = alert
        if is_change(alert):
            self._changes.append(alert)

    def drain_rows(self, shard: int, version: int) -> pa.Table:
        """The rows under this version; they count as given out."""
        rows, self._current = alerts_table(self._current.values(), shard, version), {}
        return rows

    def drain_changes(self) -> list[Alert]:
        """The changes of status, in order; they count as given out."""
        changes, self._changes = self._changes, []
        return changes
