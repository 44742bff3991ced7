"""The meter's alerts about itself: stored in the same table as a shard's alerts, and sent by the same notifier."""

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
from streams.engine.alerts.alert import FIRING, Alert, is_change
from streams.engine.alerts.meter_rules import METER, MeterFinding, after, is_due
from streams.engine.alerts.rows import alerts_table
from streams.notify.history import StoredDeliveries
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink

logger = logging.getLogger(__name__)

#: Retry interval of what could not be stored.
_AGAIN_S: Final = 1.0


@dataclass(eq=False)
class _Change:
    """A row to be stored; the version is assigned at the first attempt and stays, as the token contains it."""

    alert: Alert
    version: int | None = None


class _Only(NamedTuple):
    """Only these subjects of the rule hold."""

    rule: str
    subjects: frozenset[str]
    at_ms: int


@dataclass(eq=False)
class _AlertState:
    """What is known of one shard's alerts while we own it; unreachable once the shard is revoked."""

    owner: ReferenceType[OwnedShard]  # a shard is megabytes
    said: dict[tuple[str, str], bool] = field(
        default_factory=dict
    )  # the last finding of each rule and subject
    said_only: dict[str, frozenset[str]] = field(default_factory=dict)
    heard: deque[MeterFinding | _Only] = field(default_factory=deque)  # findings that are not processed yet
    last: dict[tuple[str, str], Alert] | None = None  # None: the table was not read yet
    changes: deque[_Change] = field(default_factory=deque)

    def is_due(self, found: MeterFinding) -> bool:
        """Whether its alert flaps, and was quiet for long enough."""
        last = None if self.last is None else self.last.get((found.rule, found.subject))
        if last is None or last.status != FIRING or found.holds:
            return False
        return found.is_off or is_due(last, found.at_ms)


class SelfAlerts:
    """`update` records findings; `step` stores and sends the resulting changes.

    Each alert belongs to a shard, so that it has one owner at a time: a new owner reads the open ones from the table
    and continues them, with versions above those of the former owner.
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
        """Record a finding about a subject of the shard; repeating it has no effect, unless an alert that flaps is over by it.

        Ignored for shards that are not ours.
        """
        state = self._alert_state(shard)
        key = (found.rule, found.subject)
        if state is None or (state.said.get(key) == found.holds and not state.is_due(found)):
            return
        state.said[key] = found.holds
        state.heard.append(found)
        self._news.set()

    def replace_all(self, shard: int, rule: str, found: Sequence[MeterFinding], at_ms: int) -> None:
        """Record that of this rule and shard only these findings hold."""
        for each in found:
            self.update(shard, each)
        state, subjects = self._alert_state(shard), frozenset(each.subject for each in found)
        if state is None:
            return
        only = _Only(rule, subjects, at_ms)
        is_known = state.said_only.get(rule) == subjects
        if is_known and not any(state.is_due(each) for each in _others(only, state.last or {})):
            return
        state.said_only[rule] = subjects
        for key in [key for key in state.said if key[0] == rule and key[1] not in subjects]:
            del state.said[key]
        state.heard.append(only)
        self._news.set()

    async def run(self) -> None:
        """Store and send until cancelled; retry while the store is unavailable."""
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
                extra={"runbook": "docs/trouble.md#internal-fault"},
            )
            return False

    async def step(self) -> bool:
        """Store what changed, then send it; return False if some of it could not be stored yet."""
        done = True
        for shard in list(self._desks):
            state = self._alert_state(shard)
            if state is None:
                continue
            try:
                done &= await self._settle(shard, state)
            except SinkBusy as busy:
                logger.warning(
                    "alerts about the meter wait for the store",
                    extra={
                        "shard": shard,
                        "reason": str(busy),
                        "runbook": "docs/trouble.md#store-unavailable",
                    },
                )
                done = False
        return done

    def _alert_state(self, shard: int) -> _AlertState | None:
        """The state of the shard as it is owned now; state of an earlier ownership belongs to the new owner."""
        owner = self._owned().get(shard)
        state = self._desks.get(shard)
        if owner is None:
            self._desks.pop(shard, None)
            return None
        if state is None or state.owner() is not owner:
            state = self._desks[shard] = _AlertState(ref(owner))
        return state

    async def _settle(self, shard: int, state: _AlertState) -> bool:
        owner = state.owner()
        if owner is None or (not state.heard and not state.changes):
            return True
        if state.last is None:
            state.last = await self._threads.run(self._records.last_of_subjects, METER, shard)
        while state.heard:
            heard = state.heard.popleft()
            for each in [heard] if isinstance(heard, MeterFinding) else _others(heard, state.last):
                alert = after(state.last.get((each.rule, each.subject)), each)
                if alert is not None:
                    state.last[each.rule, each.subject] = alert
                    state.changes.append(_Change(alert))
        while state.changes and not owner.gone:
            if not self._is_member():
                return False  # another worker may own the shard by now
            change = state.changes[0]
            await self._threads.run(self._insert(shard, owner, change))
            state.changes.popleft()
            if is_change(change.alert) and not owner.gone:
                logger.warning(
                    "alert about the meter",
                    extra={
                        "rule": change.alert.rule,
                        "status": change.alert.status,
                        "shard": shard,
                        "summary": change.alert.summary,
                        "runbook": "docs/trouble.md#self-monitoring",
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
    """The findings that resolve all other subjects."""
    return [
        MeterFinding(rule, subject, False, only.at_ms)
        for rule, subject in last
        if rule == only.rule and subject not in only.subjects
    ]
