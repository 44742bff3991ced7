"""Mutes tickets about jobs of a team while the page `team_burn` about it fires: one cause, one page."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Final

from streams.clock import Clock
from streams.engine.alerts.alert import Alert
from streams.notify.history import StoredDeliveries
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

_KEPT_MS: Final = 10_000


class Inhibition:
    """The teams about which `team_burn` pages, read from the tables: another worker may judge it."""

    def __init__(
        self, records: StoredDeliveries, clock: Clock, faults: DeliveryFaults, timeout_ms: int
    ) -> None:
        self._records = records
        self._clock = clock
        self._faults = faults
        self._timeout_ms = timeout_ms
        self._threads = Threads("team-pages")
        self._teams: Collection[str] = frozenset()
        self._read_ms: int | None = None

    async def refresh(self) -> None:
        """Read the tables unless that was done just now."""
        now_ms = self._clock.monotonic_ms()
        if self._read_ms is not None and now_ms - self._read_ms < _KEPT_MS:
            return
        self._read_ms = now_ms
        try:
            reading = self._threads.run(self._records.paged_teams)
            self._teams = await asyncio.wait_for(reading, self._timeout_ms / 1000)
        except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
            self._teams = frozenset()
            self._faults.failed("read_alerts", fault)

    def covers(self, alert: Alert) -> bool:
        """Whether the alert is muted."""
        return alert.severity == "ticket" and alert.subject_kind == "job" and alert.team in self._teams
