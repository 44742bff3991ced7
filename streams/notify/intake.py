"""Collects the alerts to deliver: those just stored, and those that the tables still owe after a takeover or overflow.

It yields each alert with the history of its message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from streams.clock import Clock
from streams.engine.alerts.alert import Alert, webhook_id
from streams.notify.delivery import Receiver
from streams.notify.history import (
    AT_ONCE,
    RECEIPT_SHARD,
    AlertCursor,
    DeliveryHistory,
    StoredAlerts,
    StoredDeliveries,
)
from streams.notify.job_labels import JobLabels
from streams.notify.notice import ISSUED
from streams.notify.options import NotifierOptions
from streams.notify.store_faults import DeliveryFaults
from streams.threads import Threads

logger = logging.getLogger(__name__)

_LOOK_AGAIN_MS: Final = 1_000
_LEFT_MS: Final = 60_000


@dataclass(eq=False)
class Passage:
    """An alert on its way through the stages of the notifier."""

    alert: Alert
    shard: int
    history: DeliveryHistory = field(default_factory=DeliveryHistory)  # of its message
    receivers: dict[str, Receiver] = field(default_factory=dict)  # by name
    was_notified: bool = False  # it is the end of what somebody was notified of


class AlertIntake:
    """Alerts in their order; those without room stay in the tables and are read again later."""

    def __init__(
        self,
        records: StoredDeliveries,
        labels: JobLabels,
        options: NotifierOptions,
        clock: Clock,
        queued: Callable[[], int],
        faults: DeliveryFaults,
    ) -> None:
        self._records = records
        self._labels = labels
        self._options = options
        self._clock = clock
        self._queued = queued
        self._faults = faults
        self._threads = Threads("deliveries-read")
        self._offered: list[StoredAlerts] = []
        self._taking: int = 0  # alerts whose history is being read, or that are yielded
        self._ours: set[int] = set()
        self._behind: set[int] = set()  # shards whose alerts must be read from the tables
        self._owes_receipts = False  # whether receipts alone must be read from the table
        self._reading: set[int] = set()  # shards that are being read
        self._place: AlertCursor | None = None  # position of that read
        self._behind_due_ms = 0
        self._left: set[int] = set()  # shards with alerts shed because their receiver is unhealthy
        self._left_due_ms = 0

    @property
    def waiting(self) -> int:
        """How many alerts were offered and not taken yet."""
        return len(self._offered) + self._taking

    @property
    def has_offered(self) -> bool:
        """Whether alerts are left that were offered."""
        return bool(self._offered)

    @property
    def behind(self) -> bool:
        """Whether the tables may owe more."""
        return self._owes or bool(self._left)

    @property
    def _owes(self) -> bool:
        return bool(self._behind) or self._owes_receipts or self._place is not None

    def due_ms(self) -> int | None:
        """Return when to read the tables (monotonic ms); None: not needed."""
        due_ms = [self._behind_due_ms] * self._owes + [self._left_due_ms] * bool(self._left)
        return min(due_ms, default=None)

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Queue status changes, whose rows are stored, in their order."""
        self._ours.add(shard)
        for alert in alerts:
            if self._free_places() <= 0:
                if shard not in self._behind:
                    logger.warning(
                        "too many messages wait, alerts are left in the table",
                        extra={"shard": shard, "runbook": "docs/trouble.md#messages-not-delivered"},
                    )
                self._behind.add(shard)
            else:
                self._offered.append(StoredAlerts(alert, shard))

    def resume(self, shards: Collection[int]) -> None:
        """Read what the tables owe for these shards."""
        self._ours.update(shards)
        self._behind.update(shards)
        self._behind_due_ms = 0

    def resume_receipts(self) -> None:
        """Read which receipts the table owes: an alert in the tables may be a former owner's, of which other words were sent."""
        if RECEIPT_SHARD in self._ours:
            self._owes_receipts = True
            self._behind_due_ms = 0

    def leave(self, shards: Collection[int]) -> None:
        """Leave alerts of these shards in the tables for a while: their receiver is unhealthy and its queue is full."""
        if not self._left:
            self._left_due_ms = self._clock.monotonic_ms() + _LEFT_MS
        self._left |= self._ours.intersection(shards)

    def release(self, shards: Collection[int]) -> None:
        """Stop accepting alerts of these shards, and drop what is queued of them."""
        self._ours.difference_update(shards)
        self._behind.difference_update(shards)
        self._left.difference_update(shards)
        self._reading.difference_update(shards)
        self._owes_receipts &= RECEIPT_SHARD in self._ours
        self._offered = [stored for stored in self._offered if stored.shard not in shards]

    async def take(self) -> AsyncIterator[Passage]:
        """Yield some of what was offered, then what the tables owe; `has_offered` says whether to call again at once."""
        # In parts: thousands at once would hold up the event loop for a second.
        offered, self._offered = self._offered[:AT_ONCE], self._offered[AT_ONCE:]
        if offered:
            self._taking = len(offered)
            try:
                for passage in await self._with_histories(offered):
                    yield passage
            finally:
                self._taking = 0
        if self._left and self._clock.monotonic_ms() >= self._left_due_ms:
            self._behind, self._left = self._behind | self._left, set()
        if self._owes and self._clock.monotonic_ms() >= self._behind_due_ms:
            async for passage in self._catch_up():
                yield passage

    async def _catch_up(self) -> AsyncIterator[Passage]:
        """Yield pages of owed alerts until one has any, or until newly offered alerts take precedence."""
        if self._place is None:
            if self._free_places() * 2 < self._options.waiting_at_most:
                self._rest(_LOOK_AGAIN_MS)
                return
            # Cleared before the tables are read: shards added from now on are read again.
            if self._behind:
                self._reading, self._behind, self._place = self._behind, set(), AlertCursor()
            else:
                self._reading, self._owes_receipts, self._place = {RECEIPT_SHARD}, False, AlertCursor(ISSUED)
        horizon_ms = self._options.resolved_horizon_ms
        since_ms = None if horizon_ms is None else self._clock.now_ms() - horizon_ms
        queued = self._queued()
        while self._place is not None and self._reading:
            if self._free_places() <= 0:
                self._rest(_LOOK_AGAIN_MS)
                return
            if self._offered or self._queued() > queued:
                return
            try:
                page, following = await self._threads.run(
                    self._records.owed, frozenset(self._reading), since_ms, self._place
                )
            except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
                self._rest(self._faults.failed("read_alerts", fault))
                return
            self._faults.worked("read_alerts")
            try:
                histories = await self._histories(page)
            except Exception as fault:  # noqa: BLE001 - as above; without the history every message would be sent again
                self._rest(self._faults.failed("read_deliveries", fault))
                return
            for passage in await self._passages(page, histories):
                yield passage
            self._place = following
        self._place = None

    def _rest(self, for_ms: int) -> None:
        self._behind_due_ms = self._clock.monotonic_ms() + for_ms

    async def _with_histories(self, batch: Sequence[StoredAlerts]) -> Iterator[Passage]:
        """Offered alerts with their history, without it if the store cannot return it."""
        patience_s = self._options.look_up_timeout_ms / 1000
        histories: dict[str, DeliveryHistory] = {}
        try:
            histories = await asyncio.wait_for(self._histories(batch), patience_s)
        except Exception as fault:  # noqa: BLE001 - a failing delivery must not stop metering
            self._faults.failed("read_deliveries", fault)
        return await self._passages(batch, histories)

    async def _passages(
        self, batch: Sequence[StoredAlerts], histories: Mapping[str, DeliveryHistory]
    ) -> Iterator[Passage]:
        if self._labels.are_used:
            try:
                reading = self._threads.run(self._labels.read, [alert for alert, _ in batch])
                await asyncio.wait_for(reading, self._options.look_up_timeout_ms / 1000)
            except Exception as fault:  # noqa: BLE001 - as above; they are grouped without labels of jobs
                self._faults.failed("read_alerts", fault)
        # A shard may have been released meanwhile.
        return (
            Passage(
                alert,
                shard,
                histories.get(webhook_id(alert.alert_id, alert.status, alert.changed_ms), DeliveryHistory()),
            )
            for alert, shard in batch
            if shard in self._ours
        )

    async def _histories(self, batch: Sequence[StoredAlerts]) -> dict[str, DeliveryHistory]:
        """Earlier deliveries, including those of former processes."""
        if not batch:
            return {}
        alert_ids = {alert.alert_id for alert, _ in batch}
        histories = await self._threads.run(self._records.histories, alert_ids)
        self._faults.worked("read_deliveries")
        return histories

    def _free_places(self) -> int:
        return self._options.waiting_at_most - self.waiting - self._queued()
