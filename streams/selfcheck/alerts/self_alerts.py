"""The meter's alerts about itself: kept as a shard's are, in the same table, and sent by the same notifier.

It must not judge, and tells nobody of what is not stored; without the store such an alert waits.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final, NamedTuple
from weakref import ReferenceType, ref

from schemas.tables import ALERTS
from sinks.errors import SinkBusy
from sinks.rows import Rows
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.meter_rules import METER, MeterFinding, after
from streams.engine.alerts.rows import alerts_table
from streams.notify.history import StoredDeliveries
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink

logger = logging.getLogger(__name__)

#: How often what could not be stored is tried again.
_AGAIN_S: Final = 1.0


@dataclass(eq=False)
class _Change:
    """A row on its way to the store; the version is given with the first try and stays, as the token names it."""

    alert: Alert
    version: int | None = None


class _Only(NamedTuple):
    """Of the rule nothing but these subjects holds."""

    rule: str
    subjects: frozenset[str]
    at_ms: int


@dataclass(eq=False)
class _AlertState:
    """What is known of one shard's alerts while we own it; nobody may ask for it again once the shard has left."""

    owner: ReferenceType[OwnedShard]  # a shard is megabytes
    said: dict[tuple[str, str], bool] = field(
        default_factory=dict
    )  # what was last heard of a rule and subject
    said_only: dict[str, frozenset[str]] = field(default_factory=dict)
    heard: deque[MeterFinding | _Only] = field(
        default_factory=deque
    )  # changes of it that are not looked at yet
    last: dict[tuple[str, str], Alert] | None = None  # None: the table was not read yet
    changes: deque[_Change] = field(default_factory=deque)


class SelfAlerts:
    """`hold` says what is; `step` stores and tells what changed by it.

    Each alert belongs to a shard, so that it has one owner at a time: a new owner reads the open ones from the table
    and goes on with them, and its versions are above those of the owner before.
    """

    def __init__(
        self,
        store: Rows,
        owned: Callable[[], Mapping[int, OwnedShard]],
        is_member: Callable[[], bool],
        alert_sink: AlertSink,
    ) -> None:
        self._store = store
        self._records = StoredDeliveries(store)
        self._threads = Threads("alerts-of-meter")
        self._owned = owned
        self._is_member = is_member
        self._alert_sink = alert_sink
        self._desks: dict[int, _AlertState] = {}
        self._news = asyncio.Event()

    def update(self, shard: int, found: MeterFinding) -> None:
        """Take what is found of a subject of the shard; again and again the same is once. Not ours: ignored."""
        desk = self._desk(shard)
        key = (found.rule, found.subject)
        if desk is None or desk.said.get(key) == found.holds:
            return
        desk.said[key] = found.holds
        desk.heard.append(found)
        self._news.set()

    def replace_all(self, shard: int, rule: str, found: Sequence[MeterFinding], at_ms: int) -> None:
        """Of this rule and shard these hold and no others, whoever said so before."""
        for each in found:
            self.update(shard, each)
        desk, subjects = self._desk(shard), frozenset(each.subject for each in found)
        if desk is None or desk.said_only.get(rule) == subjects:
            return
        desk.said_only[rule] = subjects
        for key in [key for key in desk.said if key[0] == rule and key[1] not in subjects]:
            del desk.said[key]
        desk.heard.append(_Only(rule, subjects, at_ms))
        self._news.set()

    async def run(self) -> None:
        """Store and tell until cancelled; a store that is away is asked again and again."""
        while True:
            await self._news.wait()
            self._news.clear()
            if not await self._tried():
                await asyncio.sleep(_AGAIN_S)
                self._news.set()

    async def _tried(self) -> bool:
        try:
            return await self.step()
        except Exception:
            logger.exception(
                "alerts about the meter failed, retrying",
                extra={"runbook": "docs/operations.md#internal-fault"},
            )
            return False

    async def step(self) -> bool:
        """Store what changed, then tell it; False if some of it could not be stored yet."""
        done = True
        for shard in list(self._desks):
            desk = self._desk(shard)
            if desk is None:
                continue
            try:
                done &= await self._settle(shard, desk)
            except SinkBusy as busy:
                logger.warning(
                    "alerts about the meter wait for the store",
                    extra={
                        "shard": shard,
                        "reason": str(busy),
                        "runbook": "docs/operations.md#store-unavailable",
                    },
                )
                done = False
        return done

    def _desk(self, shard: int) -> _AlertState | None:
        """The desk of the shard as it is held now; what was on that of an earlier holding is the new owner's."""
        owner = self._owned().get(shard)
        desk = self._desks.get(shard)
        if owner is None:
            self._desks.pop(shard, None)
            return None
        if desk is None or desk.owner() is not owner:
            desk = self._desks[shard] = _AlertState(ref(owner))
        return desk

    async def _settle(self, shard: int, desk: _AlertState) -> bool:
        owner = desk.owner()
        if owner is None or (not desk.heard and not desk.changes):
            return True
        if desk.last is None:
            desk.last = await self._threads.run(self._records.last_of_subjects, METER, shard)
        while desk.heard:
            heard = desk.heard.popleft()
            for each in [heard] if isinstance(heard, MeterFinding) else _others(heard, desk.last):
                alert = after(desk.last.get((each.rule, each.subject)), each)
                if alert is not None:
                    desk.last[each.rule, each.subject] = alert
                    desk.changes.append(_Change(alert))
        while desk.changes and not owner.gone:
            if not self._is_member():
                return False  # others may own the shard by now, and speak for it
            change = desk.changes[0]
            await self._threads.run(self._insert(shard, owner, change))
            desk.changes.popleft()
            if not owner.gone:
                logger.warning(
                    "alert about the meter",
                    extra={
                        "rule": change.alert.rule,
                        "status": change.alert.status,
                        "shard": shard,
                        "summary": change.alert.summary,
                        "runbook": "docs/operations.md#the-meter-about-itself",
                    },
                )
                self._alert_sink.offer([change.alert], shard)
        return True

    def _insert(self, shard: int, owner: OwnedShard, change: _Change) -> Callable[[], None]:
        if change.version is None:
            change.version = owner.versions.next()
        rows = alerts_table([change.alert], shard, change.version)
        token = f"self:{shard}.{change.version}.{change.alert.alert_id}"
        return partial(self._store.insert, ALERTS, rows, token)


def _others(only: _Only, last: Mapping[tuple[str, str], Alert]) -> list[MeterFinding]:
    """The findings that end what is not among them."""
    return [
        MeterFinding(rule, subject, False, only.at_ms)
        for rule, subject in last
        if rule == only.rule and subject not in only.subjects
    ]
