"""Pages that fire and that nobody has acknowledged: when the next one in `escalate` is sent them.

Whom a page was sent stands in `deliveries`, so a restart neither forgets a step nor takes it twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

import msgspec

from schemas.counting import how_many
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.receiver_records import ESCALATED, Escalation
from streams.engine.rules.formatting import NAMES_AT_MOST, short, short_instant, span
from streams.engine.rules.rule import PAGE
from streams.notify.delivery import Receiver
from streams.notify.firing import KEPT_AT_MOST
from streams.notify.history import DeliveryHistory
from streams.notify.receivers import Receivers

#: How often it is looked.
LOOK_MS: Final = 10_000
#: Steps that are taken in one look; the others wait for the next one.
_STEPS_AT_ONCE: Final = 500


class EscalationOf(NamedTuple):
    """To whom a page goes on, and until when it is, or was, acknowledged (ms since 1970; 0: never)."""

    escalation: Escalation
    acknowledged_until_ms: float = 0.0


class OwnerReached(NamedTuple):
    """An owner to whom a page goes on now."""

    alert: Alert
    shard: int
    owner: str
    history: DeliveryHistory  # of the page's message


@dataclass(eq=False)
class _FiringPage:
    alert: Alert
    shard: int
    history: DeliveryHistory
    steps: int = 0  # that were taken by this process, or looked at
    acknowledged_until_ms: float = 0.0  # the newest end of an acknowledgement, and
    steps_by_then: int = 0  # how many were taken when it was seen first


class Escalations:
    """The pages of our shards that fire; those beyond `at_most` go on to nobody."""

    def __init__(self, receivers: Receivers, now_ms: int, at_most: int = KEPT_AT_MOST) -> None:
        """`now_ms`: monotonic."""
        self._receivers = receivers
        self._at_most = at_most
        self._pages: dict[str, _FiringPage] = {}
        self._notified: dict[str, list[str]] = {}  # owners, by alert id
        self._look_ms = now_ms + LOOK_MS
        #: To whom a page goes on; None: to nobody, or a silence covers it.
        self.of: Callable[[Alert], EscalationOf | None] = lambda _: None

    def note(self, alert: Alert, shard: int, history: DeliveryHistory) -> None:
        """Take note of a change of status, and of what was sent of it."""
        if alert.status != FIRING or alert.silenced or alert.severity != PAGE:
            self._pages.pop(alert.alert_id, None)
            return
        known = self._pages.get(alert.alert_id)
        if known is not None and known.alert.changed_ms == alert.changed_ms:
            return
        if known is None and len(self._pages) >= self._at_most:
            return
        self._pages[alert.alert_id] = _FiringPage(alert, shard, history)
        self._notified.pop(alert.alert_id, None)  # it begins anew with its owner
        for name in history.attempts:
            if ESCALATED in name:
                self._tell(alert.alert_id, name.rpartition(ESCALATED)[2])

    def drop(self, alert_id: str) -> None:
        """Another alert tells of its cause."""
        self._pages.pop(alert_id, None)

    def fires(self, alert_id: str) -> bool:
        """Whether it is a page that still fires."""
        return alert_id in self._pages

    def notified(self, alert_id: str) -> list[str]:
        """The owners to whom the alert went on: they learn its end, too."""
        return self._notified.get(alert_id, [])

    def receivers_of(self, alert: Alert, owner: str, others: Collection[Receiver]) -> dict[str, Receiver]:
        """The receivers by name of an owner to whom the alert goes on, without those that have it."""
        return self._receivers.on_behalf(owner, others, self._sent_before(alert, owner)[-1])

    def worded(self, alert: Alert, to: Receiver, now_ms: int) -> Alert:
        """The page as it is worded for a receiver to whom it is escalated: who has not acknowledged it, and for how long; `now_ms` since 1970."""
        found = self.of(alert) if to.escalated_from and alert.status == FIRING else None
        if found is None or to.signed_for not in found.escalation.owners:
            return alert
        owners, after_ms = found.escalation
        until_ms = found.acknowledged_until_ms
        if until_ms <= alert.changed_ms:
            names = [short(name, NAMES_AT_MOST) for name in self._sent_before(alert, to.signed_for)]
            first = f"{names[0]} and {names[1]}" if len(names) == 2 else names[0]
            who = f"{first} and {how_many(len(names) - 1, 'other')}" if len(names) > 2 else first
            # By the step and not by the clock: the same in every attempt, and after a restart.
            waited_ms = (owners.index(to.signed_for) + 1) * after_ms
            said = f"{who} {'has' if len(names) == 1 else 'have'} not acknowledged for {span(waited_ms)}"
        elif until_ms <= now_ms:
            said = f"not acknowledged since {short_instant(int(until_ms), now_ms)} UTC"
        else:
            return alert
        return msgspec.structs.replace(alert, summary=f"{said}: {alert.summary}")

    def _sent_before(self, alert: Alert, owner: str) -> list[str]:
        """Whom the alert was sent before it went on to this one: its owner, or its team, and those of `escalate` who have an address."""
        found = self.of(alert)
        owners = () if found is None else found.escalation.owners
        before = owners[: owners.index(owner)] if owner in owners else ()
        first = alert.owner or f"team/{alert.team}"
        return [first, *(name for name in before if self._receivers.on_behalf(name, ()))]

    def release(self, shards: Collection[int]) -> None:
        """Forget the pages of shards that are no longer ours."""
        gone = [alert_id for alert_id, page in self._pages.items() if page.shard in shards]
        for alert_id in gone:
            del self._pages[alert_id]
            self._notified.pop(alert_id, None)

    def look_ms(self) -> int | None:
        """When to look again (monotonic ms); None: no page fires."""
        return self._look_ms if self._pages else None

    def due(self, now_ms: int, log_ms: int) -> Iterator[OwnerReached]:
        """Yield the steps that are due, once in an interval: `now_ms` is monotonic, `log_ms` since 1970."""
        if not self._pages or now_ms < self._look_ms:
            return
        self._look_ms = now_ms + LOOK_MS
        left = _STEPS_AT_ONCE
        for page in list(self._pages.values()):
            found = self.of(page.alert)
            if found is not None and found.acknowledged_until_ms != page.acknowledged_until_ms:
                page.acknowledged_until_ms, page.steps_by_then = found.acknowledged_until_ms, page.steps
            if found is None or log_ms < found.acknowledged_until_ms:
                continue
            owners, after_ms = found.escalation
            since_ms = max(page.alert.changed_ms, int(found.acknowledged_until_ms))
            if found.acknowledged_until_ms > page.alert.changed_ms:
                # The time counts anew for the next one; whoever had it before the acknowledgement has it.
                since_ms -= page.steps_by_then * after_ms
            steps = min((log_ms - since_ms) // after_ms, len(owners))
            while page.steps < steps and left:
                owner = owners[page.steps]
                page.steps += 1
                left -= 1
                self._tell(page.alert.alert_id, owner)
                yield OwnerReached(page.alert, page.shard, owner, page.history)

    def _tell(self, alert_id: str, owner: str) -> None:
        if alert_id not in self._notified and len(self._notified) >= self._at_most:
            del self._notified[next(iter(self._notified))]
        owners = self._notified.setdefault(alert_id, [])
        if owner not in owners:
            owners.append(owner)
