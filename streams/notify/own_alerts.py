"""Reads what a job burned when alerts about it opened on earlier days.

Only of alerts: their rows stay, do not change once they are over, and are what was known when they were judged. All calls block,
so they belong in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.durations import DAY_MS
from schemas.tables import ALERTS
from schemas.units import nano_of_usd
from sinks.rows import Condition, Rows
from streams.engine.alerts.alert import Alert
from streams.engine.rules.own_days import DAYS, NEAR_MS, EarlierAlert, OwnDays, own_days
from streams.engine.rules.registry import BY_NAME
from streams.engine.rules.rule import JOB
from streams.notify.history import pieces

_KNOWN_AT_MOST: Final = 1_000
_BURNS: Final = tuple(name for name, rule in BY_NAME.items() if rule.usual_by == "rate")
_COLUMNS: Final = ("subject_name", "started", "resolved", "opened_usd_per_hour", "usd_per_hour")


class OwnAlerts:
    """Call `usual` for alerts."""

    def __init__(self, store: Rows) -> None:
        self._store = store
        self._known: OrderedDict[str, OwnDays | None] = OrderedDict()

    def usual(self, alerts: Sequence[Alert]) -> list[OwnDays | None]:
        """What is usual for each of these alerts by earlier ones about its job; None: nothing, or it is not of a burn rule."""
        asked = [alert for alert in alerts if alert.subject_kind == JOB and alert.rule in _BURNS]
        fresh = {alert.alert_id: alert for alert in asked if alert.alert_id not in self._known}
        if fresh:
            earlier = self._read([*fresh.values()])
            for key, alert in fresh.items():
                self._known[key] = own_days(alert.started_ms, earlier.get(alert.subject_name, ()))
        found = [self._known.get(alert.alert_id) for alert in alerts]
        while len(self._known) > _KNOWN_AT_MOST:
            self._known.popitem(last=False)
        return found

    def _read(self, alerts: Sequence[Alert]) -> dict[str, list[EarlierAlert]]:
        """The alerts about these jobs that are over, of the days that may count for any of these."""
        started_ms = [alert.started_ms for alert in alerts]
        found: dict[str, list[EarlierAlert]] = {}
        for some in pieces(sorted({alert.subject_name for alert in alerts})):
            where = [
                Condition("rule", "in", _BURNS),
                Condition("subject_name", "in", some),
                Condition("started", ">=", min(started_ms) - DAYS * DAY_MS - NEAR_MS),
                Condition("started", "<", max(started_ms)),
            ]
            page = times_as_integers(
                self._store.select(ALERTS, where, _COLUMNS), {"started": MILLI, "resolved": MILLI}
            )
            for row in rows_of(page):
                if row["resolved"] is not None:
                    nano = max(nano_of_usd(row["opened_usd_per_hour"]), nano_of_usd(row["usd_per_hour"]))
                    earlier = EarlierAlert(row["started"], row["resolved"], nano)
                    found.setdefault(row["subject_name"], []).append(earlier)
        return found
