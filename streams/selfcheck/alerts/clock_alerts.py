"""Raises one alert while this machine's clock differs from the log by more than a minute."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from streams.engine.alerts.meter_rules import CLOCK_EVIDENCE, CLOCK_WRONG, MeterFinding
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.worker.log_time import LogTime, in_words
from streams.worker.shards.owned_shard import OwnedShard


class ClockAlerts:
    """Call `run_once` repeatedly."""

    def __init__(
        self, clock: LogTime, owned: Callable[[], Mapping[int, OwnedShard]], alerts: SelfAlerts
    ) -> None:
        self._clock = clock
        self._owned = owned
        self._alerts = alerts

    def run_once(self) -> None:
        """Update the alert of each owned shard; it fires on the lowest one, and resolves on others."""
        owned, is_off = sorted(self._owned()), self._clock.is_off
        now_ms = self._clock.now_ms()
        summary = (
            f"the clock of the worker that holds this shard is {in_words(self._clock.ahead_ms)}: alerts follow the log, "
            "but signatures and logs may not; set it right (NTP)"
        )
        for number in owned:
            holds = is_off and number == owned[0]
            subject = f"clock of the owner of shard {number}"
            self._alerts.update(
                number, MeterFinding(CLOCK_WRONG, subject, holds, now_ms, summary, CLOCK_EVIDENCE)
            )
