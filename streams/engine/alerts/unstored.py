"""Alerts that changed and are not stored yet: the newest row of each, and the status changes to send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import pyarrow as pa

from schemas.durations import BEGINNING_MS
from streams.engine.alerts.alert import Alert, HeldRow, is_change, last_ms
from streams.engine.alerts.rows import alerts_table


class UnstoredAlerts:
    """Alerts of one shard; true while a row waits."""

    def __init__(self) -> None:
        self._current: dict[str, Alert | Callable[[], Alert]] = {}  # by alert: its row, or what makes it
        self._to_make: dict[str, set[str]] = {}  # by job: its alerts whose rows are not made
        self._changes: list[Alert] = []  # status changes, in order
        # By alert: the tick of its stored row, where that is ahead of ours, and the newest row of our own.
        self._stored_ms: dict[str, int] = {}
        self._behind: dict[str, Alert] = {}

    def __bool__(self) -> bool:
        return bool(self._current)

    @property
    def any_changed(self) -> bool:
        """Whether a status change waits to be sent."""
        return bool(self._changes)

    def add(self, alert: Alert) -> None:
        """Add a row of an alert.

        A row older than what a former owner stored is held back: if this owner stopped before it got that far, the next
        one, with a newer snapshot, would have no reason to write the replaced row again.
        """
        if last_ms(alert) < self._stored_ms.get(alert.alert_id, last_ms(alert)):
            self._behind[alert.alert_id] = alert
        else:
            self._add(alert)

    def add_all(self, alerts: Iterable[Alert], held: Iterable[HeldRow]) -> None:
        """Add the rows of some ticks, in order of time, and those of alerts that kept firing at some of them."""
        newest_ms: dict[str, int] = {}
        for alert in alerts:
            self.add(alert)
            newest_ms[alert.alert_id] = last_ms(alert)
        for each in held:
            if each.at_ms > newest_ms.get(each.alert_id, BEGINNING_MS):
                self._defer(each)

    def _defer(self, held: HeldRow) -> None:
        """Add a row that is made once it is stored, or the job changes: most are replaced before."""
        if held.at_ms < self._stored_ms.get(held.alert_id, held.at_ms):
            self._behind[held.alert_id] = held.row()
        else:
            self._behind.pop(held.alert_id, None)
            self._current[held.alert_id] = held.row
            self._to_make.setdefault(held.job_id, set()).add(held.alert_id)

    def settle(self, job_id: str) -> None:
        """Make the rows of a job that wait for it: what they say of the job is about to change."""
        for alert_id in self._to_make.pop(job_id, ()):
            row = self._current.get(alert_id)
            if row is not None and not isinstance(row, Alert):
                self._current[alert_id] = row()

    def mark_stored(self, stored_ms: Mapping[str, int]) -> None:
        """Record that former owners stored and sent rows of these alerts as of these ticks."""
        for alert, at_ms in stored_ms.items():
            self._stored_ms[alert] = max(at_ms, self._stored_ms.get(alert, at_ms))

    def judged(self, until_ms: int) -> None:
        """Record that all ticks up to this one are judged: rows stored as of them are no longer ahead."""
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
        """Return the rows under this version, and forget them."""
        waiting, self._current, self._to_make = self._current.values(), {}, {}
        rows = (each if isinstance(each, Alert) else each() for each in waiting)
        return alerts_table(rows, shard, version)

    def drain_changes(self) -> list[Alert]:
        """Return the status changes in order, and forget them."""
        changes, self._changes = self._changes, []
        return changes
