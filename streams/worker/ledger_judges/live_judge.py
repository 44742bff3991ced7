"""Judges the rules across jobs beside the meter, in the worker that owns shard 0, and stores and hands on what changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import ref

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from sinks.errors import SinkError
from sinks.port import Store
from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, Alert, is_change
from streams.engine.alerts.receipt_records import ReceiptRecord
from streams.engine.reference_log import ReferenceLog, ReferenceView
from streams.notify.links import NO_LINKS, Links
from streams.threads import Threads
from streams.worker.ledger_judges.action_requester import ActionRequester
from streams.worker.ledger_judges.budget_judge import BudgetJudge, BudgetState, LedgerChanges
from streams.worker.ledger_judges.control_spans import ControlSpans, parts_of, weeks_of
from streams.worker.ledger_judges.judged_hours import HourlyJudge, JudgedHours
from streams.worker.ledger_judges.known_alerts import SHARD, KnownAlerts
from streams.worker.ledger_judges.known_log import KnownLog
from streams.worker.ledger_judges.own_rules_judge import Ask, ConfinedQueries, OwnRulesJudge
from streams.worker.ledger_judges.reader import LATE_MS, Accrued, LedgerReader
from streams.worker.ledger_judges.rule_rows import RuleRows, RuleRowWriter, rows_of
from streams.worker.receipts.receipt_issuer import ReceiptIssuer
from streams.worker.receipts.request_messages import RequestMessages
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink

logger = logging.getLogger(__name__)

EVERY_S: Final = 10.0


class _Duty:
    """What is known while shard 0 is ours; another owner begins anew, from the tables."""

    def __init__(
        self,
        owner: OwnedShard,
        store: Store,
        view: ReferenceView,
        began_ms: int,
        late_ms: int,
        ask: Ask,
        threads: Threads,
    ) -> None:
        self.owner = ref(owner)  # a shard is megabytes
        self.reader = LedgerReader(store, late_ms)
        self.known_alerts = KnownAlerts(store)
        self.judge = BudgetJudge(self.reader, self.known_alerts)
        own = OwnRulesJudge(store, self.known_alerts, ask)
        self.hourly = HourlyJudge(store, self.known_alerts, own, view.again(), threads)
        self.hours = JudgedHours(store)
        self.spans = ControlSpans(view)
        self.hour_spans = ControlSpans(view.again())
        self.began_ms = began_ms  # since when there may be something to judge
        self.judged_ms: int | None = None
        self.sources_ms: int | None = None  # the last minute judged while nothing was metered

    def minutes_since_ms(self, accrued: Accrued) -> int:
        """The minute after which budgets are judged: where they or a former owner stopped, else where the log begins; blocks.

        At the first look the last minute is judged again at least, for what actions are asked for; the last hour, if nobody
        knows where the log begins.
        """
        if self.judged_ms is not None:
            return self.judged_ms
        begin_ms = accrued.until_ms - HOUR_MS if self.hours.begin_ms is None else self.hours.begin_ms
        stopped = [ms for ms in (self.reader.judged_ms(), self.hours.stopped_ms()) if ms is not None]
        return min(max(stopped, default=begin_ms), accrued.until_ms - MINUTE_MS)

    def rest(self, now_ms: int, log: KnownLog | None) -> None:
        """Say that no shard has stored anything: where the log has nothing to read either, nothing is late."""
        if log is None or not log.unread({}):
            self.began_ms = max(self.began_ms, now_ms if log is None else log.asked_ms)

    def hours_since_ms(self, accrued: Accrued) -> int:
        """The minute after which rules by the hour are judged: as for budgets, or in the last hour; blocks.

        Of earlier hours nobody knows what comes late: a collector may tell of jobs that began days before the log.
        """
        if self.hours.judged_ms is not None:
            return self.hours.judged_ms
        stopped_ms = self.hours.stopped_ms()
        if stopped_ms is not None:
            return stopped_ms
        begin_ms = self.hours.begin_ms
        if begin_ms is None or begin_ms > accrued.complete_ms:  # another shard began before
            return accrued.complete_ms - HOUR_MS
        return begin_ms

    def rows_by_day(self, since_ms: int, until_ms: int) -> list[tuple[int, int]]:
        """How many rows the days between have, for a span that may have to be judged in parts; blocks."""
        is_short = until_ms - since_ms <= DAY_MS
        return [] if is_short else self.reader.rows_by_day(since_ms // DAY_MS * DAY_MS, until_ms)


class _TakenOverError(Exception):
    """A shard was taken over while its rows were read: what was judged by them may be of rows that were taken back."""


class _Settled(NamedTuple):
    """Up to when figures are settled that receipts were not looked for yet."""

    owner: OwnedShard
    reader: LedgerReader
    accrued: Accrued
    records: tuple[ReceiptRecord, ...]


class _Judgement(NamedTuple):
    """What is stored, in one or several inserts, of one judgement."""

    duty: _Duty
    owner: OwnedShard
    changes: LedgerChanges
    rows: list[RuleRows]


def _judgement(duty: _Duty, owner: OwnedShard, changes: LedgerChanges) -> _Judgement:
    return _Judgement(duty, owner, changes, rows_of(owner, changes))


class LedgerRules:
    """Call `run` beside a meter."""

    def __init__(
        self,
        store: Store,
        owner: Callable[[], OwnedShard | None],
        is_member: Callable[[], bool],
        reference: ReferenceLog,
        alert_sink: AlertSink,
        clock: Clock,
        requester: Callable[[RuleRowWriter], ActionRequester] | None = None,
        late_ms: int = LATE_MS,
        links: Links = NO_LINKS,
        known_log: Callable[[], KnownLog] | None = None,
        messages: RequestMessages | None = None,
        begun_ms: Callable[[], int | None] = lambda: None,
        unstored_ms: Callable[[], int | None] = lambda: None,
    ) -> None:
        """Set up; nothing is read yet.

        Args:
            store: The store of all shards.
            owner: Returns shard 0 while this worker owns it.
            is_member: Returns whether the group still counts this worker as a member.
            reference: Prices and controls by log time.
            alert_sink: Sends alerts whose rows are stored.
            clock: Its `now_ms` is log time.
            requester: Makes what asks for the actions of budgets; None: nothing is asked for.
            late_ms: How much log time a late shard is waited for.
            links: What the links of receipts begin with.
            known_log: Where the log of all shards ends; None: nobody can say.
            messages: Sends what waits for a second person; None: nobody gets a message.
            begun_ms: The log time of the first record, if this worker is the first one that reads it; None: it is not.
            unstored_ms: The log time of the first record of a source that was read and is not stored yet; None: all are.
        """
        self._store = store
        self._owner = owner
        self._reference = reference
        self._alert_sink = alert_sink
        self._clock = clock
        self._late_ms = late_ms
        self._known_log = known_log
        self._messages = messages
        self._first_record_ms = begun_ms
        self._unstored_ms = unstored_ms
        self._threads = Threads("ledger-rules")
        self._writer = RuleRowWriter(store, is_member)
        self._queries = ConfinedQueries(store)
        self._duty: _Duty | None = None
        self.requester = None if requester is None else requester(self._writer)
        self._receipts = ReceiptIssuer(store, self._writer, alert_sink, links)
        self._settled: _Settled | None = None
        self._unsure: _Judgement | None = None  # the store may have it, though it did not say so
        self._said_late: tuple[int, ...] = ()
        self.states: list[BudgetState] = []
        self.judged_ms: int | None = None  # the last whole minute that was judged here

    @property
    def own_failed(self) -> int:
        """How often rules by SQL failed while shard 0 is ours."""
        return 0 if self._duty is None else self._duty.hourly.own.failed.total()

    def lag_ms(self) -> int:
        """The log time since the last minute that was judged, or since this worker has something to judge; 0: it has not.

        Of budgets and rules by the hour, those that are further behind: a late shard holds the hours up alone.
        """
        duty = self._duty
        if duty is None:
            return 0
        judged_ms = (duty.judged_ms, duty.hours.judged_ms)
        since_ms = min(duty.began_ms if each is None else each for each in judged_ms)
        return max(self._clock.now_ms() - since_ms, 0)

    async def run(self) -> None:
        """Judge, and ask for actions, until cancelled; faults of the store are logged and tried again."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._repeated(self.step))
                group.create_task(self._repeated(self.issue_receipts))
                if self._messages is not None:
                    group.create_task(self._repeated(self._tell_requests))
                if self.requester is not None:
                    group.create_task(self.requester.run(self._owner))
        finally:
            self._queries.close()

    async def _repeated(self, step: Callable[[], Awaitable[object]]) -> None:
        while True:
            try:
                await step()
            except SinkError as fault:
                logger.warning(
                    "rules across jobs wait for the store",
                    extra={"error": str(fault), "runbook": "docs/trouble.md#rules-across-jobs"},
                )
            except Exception:
                logger.exception(
                    "rules across jobs failed, trying again",
                    extra={"runbook": "docs/trouble.md#internal-fault"},
                )
            await asyncio.sleep(EVERY_S)

    async def step(self) -> LedgerChanges | None:
        """Judge the minutes that all shards have stored since the last call; return None if there are none.

        Raises:
            SinkError: The store could not be read or written; the same minutes are judged again.
        """
        owner = self._owner()
        if owner is None:
            self._duty = self._settled = self._unsure = None
            if self.requester is not None:
                self.requester.forget()
            return None
        duty = self._duty
        if duty is None or duty.owner() is not owner:
            duty = self._duty = _Duty(
                owner,
                self._store,
                self._reference.view(),
                self._clock.now_ms(),
                self._late_ms,
                self._queries,
                self._threads,
            )
            self._unsure = None  # it would keep the former shard in memory
            if self.requester is not None:
                self.requester.forget()
        if self._unsure is not None:
            await self._store_and_tell(self._unsure)  # what is judged next must know it
        if duty.hours.judged_ms is None:
            await self._threads.run(duty.hours.begin, self._writer, owner, self._first_record_ms())
        now_ms, log = self._clock.now_ms(), None if self._known_log is None else self._known_log()
        accrued = await self._threads.run(duty.reader.accrued, now_ms, log)
        if accrued is None:
            await self._judge_sources(duty, owner)
            duty.rest(now_ms, log)
            return None
        try:
            changes = await self._judge_minutes(duty, owner, accrued)
            await self._judge_hours(duty, owner, accrued)
        except _TakenOverError:
            self._duty = None  # judges remember what they read
            return None
        return changes

    async def _check(self, duty: _Duty, accrued: Accrued) -> None:
        """Check that what was judged was stored by the owners that `accrued` is about.

        Raises:
            _TakenOverError: A shard has another owner.
        """
        if not await self._threads.run(duty.reader.holds, accrued):
            raise _TakenOverError

    async def _judge_minutes(self, duty: _Duty, owner: OwnedShard, accrued: Accrued) -> LedgerChanges | None:
        if duty.judged_ms is not None and accrued.until_ms <= duty.judged_ms:
            return None
        if duty.judged_ms is None:
            await self._threads.run(duty.known_alerts.read_firing, self._clock.now_ms() - DAY_MS)
            self._tell(duty, owner)
            if accrued.until_ms < duty.known_alerts.newest_ms():
                return None  # a former owner judged further: shards read again what was known then
        self._say_late(accrued)
        duty.reader.leave_out(accrued)
        changes, found = LedgerChanges(accrued.until_ms), list[Alert]()
        since_ms = await self._threads.run(duty.minutes_since_ms, accrued)
        for controls, span in duty.spans.spans(since_ms, accrued.until_ms):
            for week in weeks_of(span):
                changes = await self._threads.run(duty.judge.judge, controls, week)
                await self._check(duty, accrued)
                await self._store_and_tell(_judgement(duty, owner, changes))
                duty.judged_ms = week.until_ms
                found += changes.alerts
        changes = replace(changes, alerts=found)
        controls = duty.spans.at(accrued.until_ms)
        self.states = changes.states
        if controls.receipts:
            self._settled = _Settled(owner, duty.reader, accrued, controls.receipts)
        if self.requester is not None:
            await self.requester.plan(owner, duty.reader, changes.states, controls)
        duty.judged_ms = self.judged_ms = accrued.until_ms
        return changes

    async def _judge_sources(self, duty: _Duty, owner: OwnedShard) -> None:
        """Judge what sources say while nothing was ever metered: then they may understand nothing of what they read."""
        until_ms = self._stored_until_ms(self._clock.now_ms() // MINUTE_MS * MINUTE_MS)
        # A former owner may have stopped some time ago; the alerts that it stored are known.
        since_ms = max(until_ms - DAY_MS, 0) if duty.sources_ms is None else duty.sources_ms
        if until_ms <= since_ms:
            return
        judge = duty.hourly.fleet.judge_sources
        for controls, span in duty.hour_spans.spans(since_ms, until_ms):
            alerts = await self._threads.run(judge, controls, *span)
            if alerts:
                await self._store_and_tell(_judgement(duty, owner, LedgerChanges(span.until_ms, alerts)))
        duty.sources_ms = until_ms

    def _stored_until_ms(self, complete_ms: int) -> int:
        """The last whole minute up to which the records of sources are stored, too: without them a source would seem silent."""
        unstored_ms = self._unstored_ms()
        return complete_ms if unstored_ms is None else min(complete_ms, unstored_ms // MINUTE_MS * MINUTE_MS)

    async def _judge_hours(self, duty: _Duty, owner: OwnedShard, accrued: Accrued) -> None:
        if not accrued.complete_ms:
            return  # a shard is still to be read for the first time
        since_ms = await self._threads.run(duty.hours_since_ms, accrued)
        duty.hours.judged_ms = since_ms
        # Where the first owner of all begins, too: hours before its own first look may be judged by the next one.
        await self._threads.run(duty.hours.keep, self._writer, owner)
        until_ms = self._stored_until_ms(accrued.complete_ms)
        if until_ms < since_ms:
            return
        days = await self._threads.run(duty.rows_by_day, since_ms, until_ms)
        for controls, span in duty.hour_spans.spans(since_ms, until_ms):
            for part in parts_of(span, days):
                alerts = await duty.hourly.judge(controls, part)
                await self._check(duty, accrued)
                await self._store_and_tell(_judgement(duty, owner, LedgerChanges(part.until_ms, alerts)))
                own = await duty.hourly.judge_own(controls, part)
                await self._check(duty, accrued)
                if own:
                    await self._store_and_tell(_judgement(duty, owner, LedgerChanges(part.until_ms, own)))
                duty.hours.judged_ms = part.until_ms
        await self._threads.run(duty.hours.keep, self._writer, owner)

    async def _store_and_tell(self, judgement: _Judgement) -> None:
        self._unsure = judgement
        await self._threads.run(self._writer.write, judgement.owner, judgement.rows)
        self._unsure = None
        alerts = judgement.changes.alerts
        judgement.duty.known_alerts.stored(alerts)
        self._tell(judgement.duty, judgement.owner, [alert for alert in alerts if is_change(alert)])

    def _tell(self, duty: _Duty, owner: OwnedShard, changes: Sequence[Alert] = ()) -> None:
        """Offer these, and before them what the judge found in the store: nothing else reads what landed after the takeover.

        What was sent before is known to the notifier.
        """
        since_ms = self._clock.now_ms() - DAY_MS
        found = duty.known_alerts.drain_found()
        owed = [alert for alert in found if alert.status == FIRING or alert.changed_ms >= since_ms]
        if (owed or changes) and not owner.gone:
            self._alert_sink.offer([*owed, *changes], SHARD)

    async def issue_receipts(self) -> None:
        """Store and send receipts of what ended until the last judged minute.

        Raises:
            SinkError: The store could not be read or written; the next call goes on.
        """
        while (settled := self._settled) is not None:
            issued = None
            if not settled.owner.gone:
                issued = await self._receipts.issue(
                    settled.owner, settled.records, settled.accrued, holds=settled.reader.holds
                )
                if issued is None:
                    self._duty = None  # the last minute is judged once more, even where no later one comes
            if not issued and self._settled is settled:
                self._settled = None

    async def _tell_requests(self) -> None:
        if self._messages is not None:
            self._messages.step(self._owner())

    def _say_late(self, accrued: Accrued) -> None:
        if accrued.late and accrued.late != self._said_late:
            logger.warning(
                "rules across jobs go on without a late shard",
                extra={"shards": list(accrued.late), "runbook": "docs/trouble.md#rules-across-jobs"},
            )
        self._said_late = accrued.late
