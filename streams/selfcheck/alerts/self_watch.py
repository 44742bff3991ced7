"""Runs a worker's self-monitoring: the canary, and the alerts of canary, audits, clock and shards without an owner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from schemas.canary_proof import CanaryProof
from sinks.port import Store
from streams.config.live import CanarySettings
from streams.config.settings import KafkaSettings
from streams.engine.alerts.meter_rules import CANARY_LATE, CANARY_WRONG, MeterFinding
from streams.selfcheck.alerts.audit_alerts import AuditAlerts, AuditVerdict
from streams.selfcheck.alerts.clock_alerts import ClockAlerts
from streams.selfcheck.alerts.owner_alerts import OwnerAlerts
from streams.selfcheck.alerts.self_alerts import SelfAlerts
from streams.selfcheck.canary.canary import SHARD, SUBJECT, Canary
from streams.selfcheck.canary.client import CanarySender
from streams.selfcheck.canary.counts import CanaryCounts
from streams.selfcheck.canary.plan import CanaryOptions
from streams.transport.faust_types import ConsumerNotStarted
from streams.worker.health.ownership import Ownership
from streams.worker.log_time import LogTime
from streams.worker.meter import Meter

logger = logging.getLogger(__name__)

_LOOK_EVERY_S: Final = 1.0


class SelfWatch:
    """Call `run` beside a meter until it is cancelled."""

    def __init__(
        self,
        meter: Meter,
        store: Store,
        kafka: KafkaSettings,
        settings: CanarySettings,
        clock: LogTime,
        verdict: Callable[[], AuditVerdict | None] = lambda: None,
        proof: CanaryProof | None = None,
        ownership: Ownership | None = None,
    ) -> None:
        """Set up what is enabled; the canary runs with a `proof` only."""
        shard_manager = meter.shard_manager

        def is_member() -> bool:
            try:
                return meter.app.started and meter.app.meter_consumer.is_member()
            except ConsumerNotStarted:
                return False

        self._clock = clock
        self._alerts = SelfAlerts(
            store, lambda: shard_manager.owned, is_member, shard_manager.checkpointer.alert_sink
        )
        self._books = AuditAlerts(verdict, lambda: shard_manager.owned, self._alerts, clock)
        self._of_clock = ClockAlerts(clock, lambda: shard_manager.owned, self._alerts)
        ownership = Ownership(lambda: None) if ownership is None else ownership
        self._of_owners = OwnerAlerts(ownership, lambda: shard_manager.owned, self._alerts, clock)
        self._canary: Canary | None = None
        if settings.enabled and proof is not None:
            self._canary = Canary(
                CanaryOptions(
                    kafka.partitions, settings.interval_ms, settings.late_after_ms, settings.tolerance_ratio
                ),
                store,
                lambda: CanarySender(kafka, proof),
                lambda: shard_manager.owned.get(SHARD),
                lambda: shard_manager.book,
                self._alerts,
                clock,
            )

    def canary(self) -> CanaryCounts | None:
        """The canary's counts for metrics; None: it does not run here."""
        return None if self._canary is None else self._canary.seen

    async def run(self) -> None:
        """Monitor until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._alerts.run())
            group.create_task(self._poll())
            if self._canary is not None:
                group.create_task(self._canary.run())

    async def _poll(self) -> None:
        while True:
            try:
                self._books.run_once()
                self._of_clock.run_once()
                self._of_owners.run_once()
                if self._canary is None:
                    self._resolve_canary_alerts()
            except Exception:
                logger.exception(
                    "check of the meter failed, retrying",
                    extra={"runbook": "docs/trouble.md#internal-fault"},
                )
            await asyncio.sleep(_LOOK_EVERY_S)

    def _resolve_canary_alerts(self) -> None:
        """Resolve open alerts of the canary if it was switched off."""
        for rule in (CANARY_WRONG, CANARY_LATE):
            self._alerts.update(SHARD, MeterFinding(rule, SUBJECT, False, self._clock.now_ms(), is_off=True))
