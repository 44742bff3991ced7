"""Delivers alerts to their owners: at least once, in order per alert, with every attempt in `deliveries`.

It sends only what is stored; its log lines and rows contain no secret and no URL path.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from sinks.errors import SinkError
from sinks.rows import Rows
from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Address, Alert, is_withheld, message_id
from streams.engine.alerts.outlook import sentence_of
from streams.engine.rules.formatting import instant, one_line
from streams.notify.channels.channels import Channels
from streams.notify.delivery import Delivery, Receiver, Refresh
from streams.notify.delivery_rows import DeliveryWriter
from streams.notify.escalations import EscalationOf, Escalations
from streams.notify.firing import FiringAlerts
from streams.notify.group_dispatch import GroupDispatch
from streams.notify.groups import GroupDelivery, GroupKey, GroupTimes
from streams.notify.history import DeliveryHistory, RecentDeliveries, StoredDeliveries
from streams.notify.holds import Holds
from streams.notify.incident_hold import IncidentHold, IncidentSettings
from streams.notify.inhibition import Inhibition
from streams.notify.intake import AlertIntake, Passage
from streams.notify.job_labels import JobLabels
from streams.notify.kind_figures import KindFigures
from streams.notify.kind_hold import KindHold
from streams.notify.notice import Notice
from streams.notify.options import NotifierOptions
from streams.notify.outcomes import OutcomeRecorder
from streams.notify.present_figures import PresentFigures
from streams.notify.queue import DeliveryQueue
from streams.notify.receivers import Receivers
from streams.notify.retry_schedule import delay_ms, retry_after_ms
from streams.notify.store_faults import DeliveryFaults
from streams.notify.webhooks.sender import Sender, SendResult
from streams.notify.withheld import WithheldAlerts, has_row_of_end, too_little

logger = logging.getLogger(__name__)

_RECENT: Final = 10_000
_REFRESHED_AT_ONCE: Final = 500
_NO_SHARD: Final = -1
_ROOM_LOOK_MS: Final = 1_000
_DRAIN_LOOK_S: Final = 0.02


class Notifier:
    """`offer` what was stored and `resume` shards that were taken over; `run` until `stop`.

    Everything but the store's calls happens on the event loop; call it from there.
    """

    def __init__(
        self,
        store: Rows,
        addresses: Callable[[str], Sequence[Address]],
        options: NotifierOptions,
        clock: Clock,
        *,
        jitter_ratio: Callable[[], float] = random.random,
        sender: Sender | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._jitter_ratio = jitter_ratio
        self._firing = FiringAlerts()
        self._withheld = WithheldAlerts(clock.monotonic_ms())
        self._notified: set[str] = set()  # ids of what fires and was sent by a former process
        self._is_silenced: Callable[[Alert], bool] = lambda _: True  # without controls no silence ends
        self._channels = Channels(options, clock, self._firing, sender)
        self._refresh_due_ms = clock.monotonic_ms() + options.alertmanager_resend_ms
        self._recent = RecentDeliveries(_RECENT)
        self._receivers = Receivers(addresses, options)
        self._escalations = Escalations(self._receivers, clock.monotonic_ms())
        self.faults = DeliveryFaults()
        self._ledger = DeliveryWriter(store, self.faults)
        self._log = OutcomeRecorder(self._ledger, self._recent, clock)
        self._outbox = DeliveryQueue(
            options.in_flight_at_most,
            options.in_flight_per_receiver,
            options.waiting_at_most // 4,
            options.starts_per_s,
        )
        records = StoredDeliveries(store)
        labels = JobLabels(records, options.group_by)
        times = GroupTimes(options.group_wait_ms, options.group_interval_ms, options.repeat_interval_ms)
        timeout_ms = options.look_up_timeout_ms
        inhibition = Inhibition(records, clock, self.faults, timeout_ms)
        self._holds = Holds(
            IncidentHold(records, clock, self.faults, options.incident_wait_ms, timeout_ms, self._log.waits),
            KindHold(KindFigures(store), clock, self.faults, timeout_ms),
        )
        self._holds.readdress = self._address
        self._people = GroupDispatch(
            times, self._outbox, inhibition, self._log, clock, jitter_ratio, labels, options.group_by
        )
        self._people.present_figures = PresentFigures(records, clock, self.faults, timeout_ms).of
        self._intake = AlertIntake(records, labels, options, clock, self._queued, self.faults)
        self._in_flight: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._stopping = False
        self._fault: BaseException | None = None  # raised by an attempt

    @property
    def waiting(self) -> int:
        """The unfinished messages, one per receiver, including those in flight."""
        return self._intake.waiting + len(self._holds) + len(self._outbox) + self._people.groups.waiting

    def _queued(self) -> int:
        """What is on its way to receivers, or is about to be."""
        return len(self._outbox) + len(self._holds.kinds)

    @property
    def behind(self) -> bool:
        """Whether the tables may owe more."""
        return self._intake.behind

    @property
    def in_flight(self) -> int:
        """The attempts in flight."""
        return len(self._in_flight)

    @property
    def outcomes(self) -> Counter[str]:
        """The count of each outcome."""
        return self._log.outcomes

    @property
    def rows_waiting(self) -> int:
        """The rows of `deliveries` not stored yet."""
        return self._ledger.waiting

    def look_up_acknowledged(self, is_acknowledged: Callable[[str], bool]) -> None:
        """Ask this, by alert id, before what still fires is sent to people again."""
        self._people.is_acknowledged = is_acknowledged

    def look_up_teams(self, addresses_of_team: Callable[[str], Sequence[Address]]) -> None:
        """Ask this for the addresses of a team."""
        self._receivers.of_team = addresses_of_team

    def look_up_escalations(self, escalation_of: Callable[[Alert], EscalationOf | None]) -> None:
        """Ask this to whom a page goes on that nobody has acknowledged; without an answer it goes on to nobody."""
        self._escalations.of = escalation_of

    def look_up_silenced(self, is_silenced: Callable[[Alert], bool]) -> None:
        """Ask this whether a silence still covers an alert that fires and was withheld."""
        self._is_silenced = self._holds.kinds.is_silenced = is_silenced

    def look_up_incidents(self, incident_of: Callable[[Alert], IncidentSettings | None]) -> None:
        """Ask this whether an alert may be part of an incident, and who would be notified of it."""
        self._holds.look_up_incidents(incident_of, self._receivers)

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Deliver these status changes, whose rows are stored, in their order."""
        self._intake.offer(alerts, shard)
        self._wake.set()

    def resume(self, shards: Iterable[int]) -> None:
        """Deliver what the tables owe; call it for every shard that is taken over, at each start."""
        self._intake.resume(set(shards))
        self._wake.set()

    def resume_receipts(self) -> None:
        """Deliver the receipts that the table owes, and no alert."""
        self._intake.resume_receipts()
        self._wake.set()

    def release(self, shards: Iterable[int]) -> None:
        """Drop what waits for shards that are no longer ours: their new owner resumes it."""
        gone = set(shards)
        self._intake.release(gone)
        self._holds.release(gone)
        self._firing.release(gone)
        self._withheld.release(gone)
        self._escalations.release(gone)
        self._people.groups.release(gone)
        self._outbox.drop(gone)

    async def run(self) -> None:
        """Deliver until `stop`, whatever the store does.

        Raises:
            Exception: A bug in an attempt; failures of receivers and of the store are handled.
        """
        writer = asyncio.create_task(self._ledger.run(), name="deliveries")
        writer.add_done_callback(lambda _: self._wake.set())
        try:
            while not self._stopping:
                self._wake.clear()
                await self.run_once()
                await self._pause()
                if writer.done():
                    writer.result()
                if self._fault is not None:
                    raise self._fault
        finally:
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    async def stop(self) -> None:
        """Start nothing more, wait for attempts in flight, store their rows; the next process resumes the rest."""
        self._stopping = True
        self._wake.set()
        patience_s = self._options.stop_timeout_ms / 1000
        if self._in_flight:
            _, late = await asyncio.wait(self._in_flight, timeout=patience_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        try:
            await asyncio.wait_for(self._ledger.flush(), patience_s)
        except (SinkError, TimeoutError):
            logger.warning(
                "delivery rows not stored, their messages may be sent again",
                extra={"rows": self.rows_waiting, "runbook": "docs/trouble.md#messages-not-delivered"},
            )

    async def drain(self, timeout_ms: int) -> int:
        """While `run` runs, wait until everything is delivered or given up; return how many messages are left."""
        self._holds.hurry()
        self._people.groups.hurry()
        self._wake.set()
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_ms / 1000):
                while self.waiting or self.behind or self.rows_waiting:  # noqa: ASYNC110 - three owners
                    await asyncio.sleep(_DRAIN_LOOK_S)
        return self.waiting

    async def run_once(self) -> None:
        """Take each alert as far as it gets now on its way from the judge to its receivers.

        docs/messages.md#from-rule-to-receiver says what each stage is for. What ends or holds up its way has a row in `deliveries`.
        """
        if self.rows_waiting >= self._options.rows_at_most:
            return  # what comes of an attempt could not be recorded
        async for passage in self._take():
            if not self._order(passage):
                continue
            self._address(passage)
            if self._dedupe(passage) and self._silence(passage) and not self._hold(passage):
                self._route(passage)
        if self._stopping:
            return
        await self._correlate()
        await self._escalate()
        self._resend()
        due = self._group()
        if due:
            await self._inhibit(due)
        for delivery in self._throttle():
            self._send(delivery)

    async def _take(self) -> AsyncIterator[Passage]:
        """Yield alerts whose rows are stored, with what was sent of them, and those that fire though their silence is over."""
        async for passage in self._intake.take():
            yield passage
        if not self._stopping:
            for alert, shard in self._withheld.ended(self._clock.monotonic_ms(), self._is_silenced):
                yield Passage(alert, shard)

    def _order(self, passage: Passage) -> bool:
        """Whether it is the alert's newest change; another one was read from the tables after the next was offered."""
        return not self._recent.overtaken(passage.alert)

    def _address(self, passage: Passage) -> None:
        """Find the receivers, and leave nobody without an end who has a beginning."""
        passage.history.merge(self._recent.history(message_id(passage.alert)))
        passage.was_notified = self._was_notified(passage.alert)
        passage.alert = alert = self._for_those_notified(passage.alert, passage.history)
        self._firing.note(alert, passage.shard)
        self._withheld.note(alert, passage.shard)
        self._escalations.note(alert, passage.shard, passage.history)
        # The team of a receipt is that of its job; what is asked of a team has no owner.
        is_owners = isinstance(alert, Notice) and alert.owner != ""
        passage.receivers = self._receivers.of(alert.owner, "" if is_owners else alert.team)
        for owner in self._escalations.notified(alert.alert_id):
            passage.receivers |= self._escalations.receivers_of(alert, owner, passage.receivers.values())
        if isinstance(alert, Notice):
            passage.receivers = {
                name: to for name, to in passage.receivers.items() if to.channel.takes_notices
            }
        else:
            self._people.restore(alert, passage.shard, passage.receivers, passage.history)

    def _dedupe(self, passage: Passage) -> bool:
        """Whether somebody is still owed the message, whichever process sent it to others."""
        return not passage.history.settled(passage.receivers)

    def _silence(self, passage: Passage) -> bool:
        """Whether no silence covers it, and it is worth a message."""
        alert = passage.alert
        if is_withheld(alert):
            why = ("silenced", "a silence covers it") if alert.silenced else ("digest", too_little(alert))
            self._log.record(alert, alert.owner, *why)
        return not is_withheld(alert)

    def _hold(self, passage: Passage) -> bool:
        """Whether it waits until it is known whether others have its cause, or whether it is usual for its kind."""
        return self._holds.hold(passage)

    async def _correlate(self) -> None:
        """Route what waited long enough, but what an alert about its cause tells of, and what is usual for its kind."""
        for passage, outcome, why in await self._holds.decided():
            if outcome:
                alert = passage.alert
                self._log.record(alert, alert.owner, outcome, why)
                self._firing.note(msgspec.structs.replace(alert, silenced=True), passage.shard)
                self._escalations.drop(alert.alert_id)
            else:
                self._route(passage)

    def _route(self, passage: Passage) -> None:
        """Queue it for programs, and put it into the groups of people; what has no room is read from the tables again."""
        alert = passage.alert
        why = self._receivers.nobody(alert.owner, passage.receivers)
        if why:
            self._log.record(alert, alert.owner, "no_receiver", why)
            return
        for name, receiver in passage.receivers.items():
            if name not in passage.history.finals and not self._owe(passage, name, receiver):
                self._intake.leave({passage.shard})

    async def _escalate(self) -> None:
        """Queue pages that nobody has acknowledged, with the figures of now, for the next one to whom they go on."""
        due = [*self._escalations.due(self._clock.monotonic_ms(), self._clock.now_ms())]
        present = await self._people.present_figures([step.alert for step in due]) if due else {}
        for alert, shard, owner, history in due:
            if not self._escalations.fires(alert.alert_id):
                continue  # its shard was released meanwhile
            others = self._receivers.of(alert.owner, alert.team).values()
            receivers = self._escalations.receivers_of(alert, owner, others)
            logger.info(
                "page goes on",
                extra={"alert_id": alert.alert_id, "owner": one_line(owner), "receivers": len(receivers)},
            )
            history.merge(self._recent.history(message_id(alert)))
            passage = Passage(present.get(alert.alert_id, alert), shard, history, receivers)
            for name, receiver in receivers.items():
                if name not in history.finals and not self._owe(passage, name, receiver):
                    self._intake.leave({shard})

    def _resend(self) -> None:
        """Send what fires to each Alertmanager again, once in an interval."""
        now_ms = self._clock.monotonic_ms()
        peers = self._receivers.peers
        if not peers or now_ms < self._refresh_due_ms:
            return
        self._refresh_due_ms = now_ms + self._options.alertmanager_resend_ms
        for name, receiver in peers.items():
            for part in range(-(-len(self._firing) // _REFRESHED_AT_ONCE)):
                alert = self._firing.part(part, _REFRESHED_AT_ONCE)[0]
                delivery = Refresh(alert, _NO_SHARD, name, receiver, part=part, size=_REFRESHED_AT_ONCE)
                self._outbox.put(delivery, now_ms)

    def _group(self) -> list[GroupKey]:
        """The groups whose message has waited long enough for others, or is to be repeated."""
        return self._people.due()

    async def _inhibit(self, due: Iterable[GroupKey]) -> None:
        """Queue the groups' messages without what a page of the team inhibits, or somebody has acknowledged."""
        await self._people.flush(due)

    def _throttle(self) -> list[Delivery]:
        """What is due and may start: so many in a second, at once, and to one receiver."""
        return self._outbox.pop_due(self._clock.monotonic_ms())

    def _send(self, delivery: Delivery) -> None:
        """Start an attempt, which records what came of it, and queues the message again if it is to be retried."""
        task = asyncio.create_task(self._attempt(delivery), name=f"webhook {delivery.webhook_id}")
        self._in_flight.add(task)
        task.add_done_callback(self._attempt_ended)

    def _was_notified(self, alert: Alert) -> bool:
        """Whether it is the end of an alert that somebody was notified of, by whichever process."""
        notified = None if alert.status == FIRING else self._firing.get(alert.alert_id)
        return notified is not None and (
            notified.alert_id in self._notified or bool(self._recent.history(message_id(notified)).finals)
        )

    def _for_those_notified(self, alert: Alert, history: DeliveryHistory) -> Alert:
        """The alert as it concerns people: who was notified that it fires is notified that it is over, and nobody else."""
        if alert.status == FIRING:
            if history.finals:
                self._notified.add(alert.alert_id)  # by a former process
            is_over = alert.silenced and history.closed and not has_row_of_end(alert)
            if is_over and not self._is_silenced(alert):
                # It was withheld, and the silence is over: what was to come when it fired may be past.
                history.closed = False
                return msgspec.structs.replace(alert, silenced=False, summary=sentence_of(alert).past())
            return alert
        notified = self._firing.get(alert.alert_id)
        if notified is not None and self._was_notified(alert):
            self._notified.discard(notified.alert_id)
            whose = {name: getattr(notified, name) for name in ("owner", "team", "project", "severity")}
            return msgspec.structs.replace(alert, silenced=False, **whose)
        if alert.alert_id in self._withheld:
            return msgspec.structs.replace(alert, silenced=True)
        return alert

    def _owe(self, passage: Passage, name: str, receiver: Receiver) -> bool:
        """Queue what is owed to a receiver; return False if there is no room."""
        alert = self._escalations.worded(passage.alert, receiver, self._clock.now_ms())
        shard, history = passage.shard, passage.history
        why = self._receivers.unsupported(receiver)
        if why:
            self._log.record(alert, name, "unsupported", why)
            return True
        if receiver.channel.is_for_people and not isinstance(alert, Notice):
            return self._people.place(alert, shard, name, receiver, history)
        attempts = history.attempts.get(name, 0)
        # Attempts of a former process count, and its back-off continues.
        wait_ms = delay_ms(attempts, self._jitter_ratio())
        delivery = Delivery(alert, shard, name, receiver, attempts + 1)
        if self._outbox.is_full(delivery):
            return False
        self._outbox.put(delivery, self._clock.monotonic_ms() + wait_ms)
        return True

    async def _attempt(self, delivery: Delivery) -> None:
        delivery.begin()
        try:
            answer = await self._channels.send(delivery)
        except Exception as fault:  # noqa: BLE001 - one message must neither stop the others nor get lost
            # Without its text or traceback, which may contain the address.
            answer = SendResult("retry", 0, f"could not be sent ({type(fault).__name__})")
        self._record_outcome(delivery, answer)
        self._wake.set()

    def _attempt_ended(self, task: asyncio.Task[None]) -> None:
        self._in_flight.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._fault = task.exception()  # its message would never be finished: `run` raises it
            self._wake.set()

    def _record_outcome(self, delivery: Delivery, answer: SendResult) -> None:
        now_ms, attempt = self._clock.monotonic_ms(), delivery.attempt
        if isinstance(delivery, Refresh):
            if self._log.refreshed(delivery.receiver, answer):
                self._outbox.finish(delivery, now_ms)
            else:
                self._outbox.again(delivery, now_ms, now_ms + self._options.alertmanager_resend_ms)
            return
        outcome, detail = str(answer.verdict), answer.detail
        retried = outcome == "retry" and attempt < self._options.max_attempts
        if retried:
            wall_ms = self._clock.now_ms()
            wait_ms = delay_ms(attempt, self._jitter_ratio(), retry_after_ms(answer.retry_after, wall_ms))
            outcome, detail = "retrying", f"{detail}; next attempt at {instant(wall_ms + wait_ms)}"
        elif outcome == "retry":
            outcome, detail = "failed", f"{detail}; given up after {attempt} attempts"
        status = answer.http_status
        if isinstance(delivery, GroupDelivery):
            self._people.record(delivery, outcome, detail, status)
        else:
            self._log.record(
                delivery.alert, delivery.receiver, outcome, detail, attempt=attempt, http_status=status
            )
        if retried:
            self._outbox.again(delivery, now_ms, now_ms + wait_ms)
        else:
            self._outbox.finish(delivery, now_ms)
            if isinstance(delivery, GroupDelivery):
                self._people.groups.finish(delivery, now_ms)
        self._intake.leave(self._outbox.shed(delivery.host))

    async def _pause(self) -> None:
        """Wait until something arrives or is due."""
        has_room = self.rows_waiting < self._options.rows_at_most
        if self._intake.has_offered and has_room:
            return
        due_ms = [self._outbox.next_due_ms(), self._intake.due_ms()]
        due_ms += [self._people.groups.next_due_ms(), self._withheld.due_ms(), self._holds.due_ms()]
        due_ms.append(self._escalations.look_ms())
        if self._receivers.peers and len(self._firing):
            due_ms.append(self._refresh_due_ms)
        now_ms = self._clock.monotonic_ms()
        if not has_room:
            due_ms = [now_ms + _ROOM_LOOK_MS]
        soonest_ms = min((each for each in due_ms if each is not None), default=None)
        timeout_s = None if soonest_ms is None else max(soonest_ms - now_ms, 0) / 1000
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), timeout_s)
