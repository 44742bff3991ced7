"""The alerts that fire now, as far as they were delivered: what is sent again while it lasts."""

from __future__ import annotations

import logging
from collections.abc import Collection
from itertools import islice
from typing import Final

from streams.engine.alerts.alert import FIRING, Alert, is_withheld

logger = logging.getLogger(__name__)

#: About 3 KiB each. What is beyond is sent once and not again.
KEPT_AT_MOST: Final = 20_000


class FiringAlerts:
    """The newest firing row of each alert of our shards; what a silence covers is left out."""

    def __init__(self, at_most: int = KEPT_AT_MOST) -> None:
        self._at_most = at_most
        self._alerts: dict[str, tuple[Alert, int]] = {}

    def __len__(self) -> int:
        return len(self._alerts)

    def __contains__(self, alert_id: str) -> bool:
        return alert_id in self._alerts

    def note(self, alert: Alert, shard: int) -> None:
        """Take note of a change of status."""
        if alert.status != FIRING or is_withheld(alert):
            self._alerts.pop(alert.alert_id, None)
        elif alert.alert_id in self._alerts or len(self._alerts) < self._at_most:
            self._alerts[alert.alert_id] = alert, shard
        else:
            logger.warning(
                "too many alerts fire, some are not sent again while they do",
                extra={"at_most": self._at_most, "runbook": "docs/trouble.md#messages-not-delivered"},
            )

    def get(self, alert_id: str) -> Alert | None:
        """The row of an alert that fires and was, or will be, sent."""
        found = self._alerts.get(alert_id)
        return None if found is None else found[0]

    def release(self, shards: Collection[int]) -> None:
        """Forget the alerts of shards that are no longer ours."""
        self._alerts = {key: each for key, each in self._alerts.items() if each[1] not in shards}

    def part(self, number: int, size: int) -> list[Alert]:
        """The alerts of a part, which all together are all."""
        return [alert for alert, _ in islice(self._alerts.values(), number * size, (number + 1) * size)]
