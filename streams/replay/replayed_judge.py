"""Judges the rules across jobs over a replayed log, after its ledger is stored, as a worker would have while it was.

It steps the worker's judge through the log's minutes, with the controls of each of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from schemas.durations import DAY_MS, MINUTE_MS
from sinks.port import Store
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.reference_log import ReferenceView
from streams.engine.rules import silent_source
from streams.engine.rules.budget_forecast import BUDGET_FORECAST
from streams.engine.rules.budget_used import BUDGET_USED
from streams.notify.links import NO_LINKS, Links
from streams.threads import Threads
from streams.worker.ledger_judges.budget_judge import BudgetJudge, LedgerChanges, read_from_ms
from streams.worker.ledger_judges.control_spans import ControlSpans, parts_of, weeks_of
from streams.worker.ledger_judges.judged_hours import HourlyJudge
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from streams.worker.ledger_judges.own_rules_judge import ConfinedQueries, FailedRule, Heard, OwnRulesJudge
from streams.worker.ledger_judges.reader import Accrued, LedgerReader
from streams.worker.ledger_judges.rule_rows import RuleRowWriter, rows_of
from streams.worker.receipts.receipt_issuer import ReceiptIssuer
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import NoAlertSink

JUDGED_KEY: Final = "ledger_rules_judged_ms"


class LogJudge:
    """The judge of one replay: call `judge` with instants in order; the controls and prices of each minute are those of then."""

    def __init__(
        self, store: Store, view: ReferenceView, links: Links = NO_LINKS, heard: Heard | None = None
    ) -> None:
        """Judge a log.

        Args:
            store: The log's.
            view: Prices and controls by log time, at the beginning of the log.
            links: What those of receipts begin with.
            heard: Hears how far rules by SQL are judged.
        """
        self._store = store
        self._threads = Threads("ledger-rules")
        self._reader = LedgerReader(store)
        self._memory = KnownAlerts(store)
        self._budgets = BudgetJudge(self._reader, self._memory)
        self._spans = ControlSpans(view)
        self._spans_before = ControlSpans(view.again())  # what is not metered is judged from the beginning on
        self._writer = RuleRowWriter(store, lambda: True)
        self._queries = ConfinedQueries(store)
        own = OwnRulesJudge(store, self._memory, self._queries, heard)
        self._hours = HourlyJudge(store, self._memory, own, view.again(), self._threads)
        self._issuer = ReceiptIssuer(store, self._writer, NoAlertSink(), links)

    def close(self) -> None:
        """End the processes of rules by SQL."""
        self._queries.close()

    def failed_rules(self) -> list[FailedRule]:
        """The rules by SQL that could not be judged at some instant, or only in part."""
        return self._hours.own.failures()

    async def judge(self, owner: OwnedShard, last_ms: int) -> list[Alert]:
        """Judge all minutes up to `last_ms` that were not judged before; return the changes of alerts and the receipts, which are stored."""
        first_ms = await self._threads.run(self._reader.first_ms)
        end_ms = last_ms // MINUTE_MS * MINUTE_MS
        if first_ms is None:
            return await self._judge_before(owner, end_ms, self._hours.fleet.judge_sources)
        if first_ms >= end_ms:
            return []
        known = await self._threads.run(self._store.meta.get, JUDGED_KEY)
        since_ms = first_ms if known is None else int(known)
        if since_ms > end_ms:
            return []
        found: list[Alert] = []
        if known is None:
            # Sources may have reported, and ceased to, before anything was metered.
            silent = partial(self._hours.fleet.judge_sources, rules=(silent_source.RULE.name,))
            found += await self._judge_before(owner, first_ms, silent)
        days = await self._threads.run(self._reader.rows_by_day, since_ms // DAY_MS * DAY_MS, end_ms)
        for controls, span in self._spans.spans(since_ms, end_ms):
            for part in parts_of(span, days):
                found += await self._judge_part(owner, controls, part)
        await self._threads.run(self._store.meta.put, JUDGED_KEY, str(end_ms))
        return found

    async def _judge_before(
        self, owner: OwnedShard, end_ms: int, judge: Callable[[Controls, int, int], list[Alert]]
    ) -> list[Alert]:
        """Judge what can be before anything is metered, from the first minute of all on."""
        found: list[Alert] = []
        for controls, span in self._spans_before.spans(0, end_ms):
            alerts = await self._threads.run(judge, controls, *span)
            await self._store_changes(owner, LedgerChanges(span.until_ms, alerts))
            found += [each for each in alerts if is_change(each)]
        return found

    async def _judge_part(self, owner: OwnedShard, controls: Controls, part: Minutes) -> list[Alert]:
        found = await self._judge_budgets(owner, controls, part)
        alerts = await self._hours.judge(controls, part)
        await self._store_changes(owner, LedgerChanges(part.until_ms, alerts))
        own = await self._hours.judge_own(controls, part)
        await self._store_changes(owner, LedgerChanges(part.until_ms, own))
        found += [each for each in (*alerts, *own) if is_change(each)]
        for span in weeks_of(part) if controls.receipts else ():
            found += await self._issue_receipts(owner, controls, span)
        return found

    async def _judge_budgets(self, owner: OwnedShard, controls: Controls, part: Minutes) -> list[Alert]:
        found: list[Alert] = []
        if not controls.budgets and not await self._threads.run(
            self._has_budgets, read_from_ms(part.since_ms)
        ):
            return found
        for span in weeks_of(part):
            changes = await self._threads.run(self._budgets.judge, controls, span)
            await self._store_changes(owner, changes)
            found += changes.alerts
        return found

    def _has_budgets(self, from_ms: int) -> bool:
        """Whether any job has a budget of its own from then on, or one was judged before."""
        self._memory.read_firing()
        fires = any(alert.rule in (BUDGET_USED, BUDGET_FORECAST) for alert in self._memory.firing())
        return fires or self._reader.has_budgets() or self._reader.has_runs(from_ms)

    async def _store_changes(self, owner: OwnedShard, changes: LedgerChanges) -> None:
        await self._threads.run(self._writer.write, owner, rows_of(owner, changes))
        self._memory.stored(changes.alerts)

    async def _issue_receipts(self, owner: OwnedShard, controls: Controls, span: Minutes) -> list[Alert]:
        found, accrued = list[Alert](), Accrued(span.until_ms, span.until_ms)
        from_ms = max(span.since_ms - DAY_MS, 0)
        while issued := await self._issuer.issue(owner, controls.receipts, accrued, from_ms):
            found += issued
        return found
