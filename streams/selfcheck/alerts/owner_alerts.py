"""Raises one alert while shards have no owner; where nobody owned any shard, it is raised once somebody does."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streams.engine.alerts.meter_rules import OWNERS_EVIDENCE, SHARDS_UNOWNED, MeterFinding
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.worker.health.ownership import Ownership
from streams.worker.log_time import LogTime
from streams.worker.shards.owned_shard import OwnedShard

#: An alert belongs to an owned shard. One that nobody could raise is raised within this time after all is well.
_RAISED_WITHIN_MS = 120_000


class OwnerAlerts:
    """Call `run_once` repeatedly."""

    def __init__(
        self,
        ownership: Ownership,
        owned: Callable[[], Mapping[int, OwnedShard]],
        alerts: SelfAlerts,
        clock: LogTime,
    ) -> None:
        self._ownership = ownership
        self._owned = owned
        self._alerts = alerts
        self._clock = clock
        self._not_raised: tuple[str, int] | None = None  # what was not raised yet, and when it was last so

    def run_once(self) -> None:
        """Update the alert of each owned shard; it fires on the lowest shard that anybody owns, and resolves on others."""
        now_ms, owned = self._clock.now_ms(), sorted(self._owned())
        words, lowest = self._ownership.words, self._ownership.lowest_owned
        if words:
            self._not_raised = (words, now_ms)
        elif self._not_raised is not None and now_ms - self._not_raised[1] > _RAISED_WITHIN_MS:
            self._not_raised = None
        late = self._not_raised if not words else None
        for number in owned:
            holds = number == lowest and bool(words or late)
            summary = words or (late[0] if late is not None else "")
            subject = f"shards without an owner, seen by the owner of shard {number}"
            self._alerts.update(
                number, MeterFinding(SHARDS_UNOWNED, subject, holds, now_ms, summary, OWNERS_EVIDENCE)
            )
            if holds:
                self._not_raised = None
                if late is not None:
                    self._alerts.update(
                        number, MeterFinding(SHARDS_UNOWNED, subject, False, now_ms, summary, OWNERS_EVIDENCE)
                    )
