"""Alerts that changed and are not stored yet: the newest row of each, and the changes of status to be told.

It must not judge, nor give a row out twice.
"""

from __future__ import annotations

import pyarrow as pa

from streams.alerts.notice import Alert, is_change
from streams.alerts.rows import alerts_table


class Waiting:
    """Of one shard; true while a row waits."""

    def __init__(self) -> None:
        self._current: dict[str, Alert] = {}  # by alert
        self._changes: list[Alert] = []  # of status, in order

    def __bool__(self) -> bool:
        return bool(self._current)

    @property
    def any_changed(self) -> bool:
        """Whether people are to hear of any."""
        return bool(self._changes)

    def add(self, alert: Alert) -> None:
        """Another row of an alert."""
        self._current[alert.alert_id] = alert
        if is_change(alert):
            self._changes.append(alert)

    def take_rows(self, shard: int, version: int) -> pa.Table:
        """The rows under this version; they count as given out."""
        rows, self._current = alerts_table(self._current.values(), shard, version), {}
        return rows

    def take_changes(self) -> list[Alert]:
        """The changes of status, in order; they count as given out."""
        changes, self._changes = self._changes, []
        return changes
