"""Puts messages to people into groups, and the groups' messages into the queue when they are due.

Every alert of a message has a row of its own in `deliveries`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from schemas.counting import how_many
from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Alert, is_withheld
from streams.notify.delivery import Receiver
from streams.notify.groups import DEFAULT_LABELS, GroupDelivery, GroupKey, Groups, GroupTimes, group_key
from streams.notify.history import DeliveryHistory
from streams.notify.inhibition import Inhibition
from streams.notify.job_labels import JobLabels
from streams.notify.outcomes import OutcomeRecorder
from streams.notify.queue import DeliveryQueue
from streams.notify.retry_schedule import delay_ms

INHIBITED = "a page of its team fires; sent once that is over and this still fires"
_NEEDLESS = "the alert changed again before it was sent"
_UNKNOWN = "its firing was not sent"


async def _as_they_were(_alerts: Sequence[Alert]) -> Mapping[str, Alert]:
    return {}


class GroupDispatch:
    """The way of messages to people from alerts to the queue."""

    def __init__(
        self,
        times: GroupTimes,
        outbox: DeliveryQueue,
        inhibition: Inhibition,
        log: OutcomeRecorder,
        clock: Clock,
        jitter_ratio: Callable[[], float],
        labels: JobLabels,
        group_by: Sequence[str] = DEFAULT_LABELS,
    ) -> None:
        self._group_by = group_by
        self._labels = labels
        self.groups = Groups(times)
        self._outbox = outbox
        self._inhibition = inhibition
        self._log = log
        self._clock = clock
        self._jitter_ratio = jitter_ratio
        #: What repeated messages say of these alerts.
        self.present_figures: Callable[[Sequence[Alert]], Awaitable[Mapping[str, Alert]]] = _as_they_were
        #: Whether an alert, by its id, is acknowledged now.
        self.is_acknowledged: Callable[[str], bool] = lambda _: False

    def place(
        self, alert: Alert, shard: int, name: str, receiver: Receiver, history: DeliveryHistory
    ) -> bool:
        """Take a change of status that is owed to the receiver; return False if there is no room."""
        if self.groups.is_full:
            return False
        key, attempts = self._key(name, receiver, alert), history.attempts.get(name, 0)
        now_ms = self._clock.monotonic_ms()
        needless = self.groups.add(key, receiver, alert, shard, attempts, now_ms)
        due_ms = self.groups.due_ms(key)
        if due_ms is not None:
            self._log.waits(alert, name, due_ms - now_ms, "for the next message of its group")
        if needless is not None:
            why = _UNKNOWN if needless.alert.changed_ms == alert.changed_ms else _NEEDLESS
            self._log.record(needless.alert, name, "superseded", why, attempt=needless.attempts)
        return True

    def restore(
        self, alert: Alert, shard: int, receivers: Mapping[str, Receiver], history: DeliveryHistory
    ) -> None:
        """Take a firing alert for those people who have its message, to repeat it when it is time."""
        people = {
            name: self._key(name, each, alert)
            for name, each in receivers.items()
            if each.channel.is_for_people
        }
        for key, member in self.groups.leave_only(
            alert.alert_id, () if is_withheld(alert) else people.values()
        ):
            self._log.record(member.alert, key.receiver, "superseded", _NEEDLESS, attempt=member.attempts)
        if alert.status != FIRING or is_withheld(alert):
            return
        now_ms, mono_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        for name, key in people.items():
            if name in history.finals:
                ago_ms = max(now_ms - history.final_ms[name], 0)
                attempts = history.attempts[name]
                self.groups.restore(key, receivers[name], alert, shard, attempts, mono_ms - ago_ms)

    def _key(self, name: str, to: Receiver, alert: Alert) -> GroupKey:
        return group_key(name, to, alert, self._group_by, self._labels.of(alert))

    def due(self) -> list[GroupKey]:
        """The groups whose wait for others is over, each to be flushed."""
        return self.groups.due(self._clock.monotonic_ms())

    async def flush(self, due: Iterable[GroupKey]) -> None:
        """Queue the messages of these groups, without what a page inhibits or somebody has acknowledged."""
        now_ms = self._clock.monotonic_ms()
        await self._inhibition.refresh()
        for key in filter(self.groups.__contains__, due):  # it may have been released meanwhile
            delivery, muted = self.groups.flush(key, now_ms, self._inhibition.covers, self.is_acknowledged)
            for member in muted:
                self._log.record(member.alert, key.receiver, "inhibited", INHIBITED)
            if delivery is not None:
                if delivery.is_repeat:
                    delivery.present = await self.present_figures(delivery.alerts)
                wait_ms = delay_ms(delivery.attempt - 1, self._jitter_ratio())
                self._outbox.put(delivery, now_ms + wait_ms)

    def record(self, delivery: GroupDelivery, outcome: str, detail: str, http_status: int) -> None:
        """Record the outcome of an attempt for each of its alerts."""
        others = len(delivery.sent) - 1
        if outcome == "delivered":
            outcome = "repeated" if delivery.is_repeat else outcome
            detail = f"one message with {how_many(others, 'other')}" if others else detail
        for number, member in enumerate(delivery.sent):
            # A repetition's attempts follow those of the message that it repeats.
            member.attempts = member.attempts + 1 if delivery.is_repeat else delivery.attempt
            self._log.record(
                member.alert,
                delivery.receiver,
                outcome,
                detail,
                attempt=member.attempts,
                http_status=http_status,
                is_logged=not number,
            )
