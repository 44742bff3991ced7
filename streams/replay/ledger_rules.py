"""Judges the rules across jobs over a replayed log, after its ledger is stored, as a worker would have while it was.

It must not judge by itself: it steps the worker's judge through the log's minutes, with the controls of each of them.
"""

from __future__ import annotations

from typing import Final

from sinks.port import Store
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.kernels.burn import HOUR_MS
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.ledger_rules.known_prices import KnownPrices
from streams.engine.ledger_rules.price_jump import PriceJumps
from streams.engine.ledger_rules.usage import MINUTE_MS
from streams.engine.reference_log import ReferenceView
from streams.notify.links import NO_LINKS, Links
from streams.threads import Threads
from streams.worker.ledger_rules.budget_judge import BudgetJudge
from streams.worker.ledger_rules.control_spans import ControlSpans, JudgedSpan
from streams.worker.ledger_rules.fleet_judge import FleetJudge
from streams.worker.ledger_rules.known_alerts import KnownAlerts
from streams.worker.ledger_rules.reader import Accrued, LedgerReader
from streams.worker.ledger_rules.rule_rows import RuleRowWriter, rows_of
from streams.worker.receipts.receipt_issuer import ReceiptIssuer
from streams.worker.receipts.receipt_reader import DAY_MS
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import NoAlertSink

JUDGED_KEY: Final = "ledger_rules_judged_ms"
#: Minutes of so much of the log are read at once.
_STEP_MS: Final = 7 * 24 * HOUR_MS


class LogJudge:
    """The judge of one replay: call `judge` with instants in order; the controls and prices of each minute are those of then."""

    def __init__(self, store: Store, view: ReferenceView, links: Links = NO_LINKS) -> None:
        """`view`: prices and controls by log time, at the beginning of the log; `links`: what those of receipts begin with."""
        self._store = store
        self._threads = Threads("ledger-rules")
        self._reader = LedgerReader(store)
        self._memory = KnownAlerts(store)
        self._budgets, self._fleet = BudgetJudge(self._reader, self._memory), FleetJudge(store, self._memory)
        self._spans, self._prices = ControlSpans(view), PriceJumps(view.again())
        self._known_prices = KnownPrices(view.again())
        self._writer = RuleRowWriter(store, lambda: True)
        self._issuer = ReceiptIssuer(store, self._writer, NoAlertSink(), links)

    async def judge(self, owner: OwnedShard, last_ms: int) -> list[Alert]:
        """Judge all minutes up to `last_ms` that were not judged before; return the changes of alerts and the receipts, which are stored."""
        first_ms = await self._threads.run(self._reader.first_ms)
        end_ms = last_ms // MINUTE_MS * MINUTE_MS
        if first_ms is None or first_ms >= end_ms:
            return []
        known = await self._threads.run(self._store.meta.get, JUDGED_KEY)
        since_ms = first_ms if known is None else int(known)
        if since_ms > end_ms:
            return []
        found: list[Alert] = []
        for controls, span in self._spans.spans(since_ms, end_ms, _STEP_MS):
            found += await self._judge_span(owner, controls, span)
        await self._threads.run(self._store.meta.put, JUDGED_KEY, str(end_ms))
        return found

    async def _judge_span(self, owner: OwnedShard, controls: Controls, span: JudgedSpan) -> list[Alert]:
        # An hour before them: rates are those of the last hour.
        from_ms = (span.since_ms // HOUR_MS - 1) * HOUR_MS
        changes = await self._threads.run(self._budgets.judge, controls, Minutes(*span), from_ms)
        jumps = self._prices.between(controls, *span)
        books = self._known_prices.between(*span)
        changes.alerts.extend(await self._threads.run(self._fleet.judge, controls, *span, jumps, books))
        await self._threads.run(self._writer.write, owner, rows_of(owner, changes))
        self._memory.stored(changes.alerts)
        found, accrued = list(changes.alerts), Accrued(span.until_ms, span.until_ms)
        while controls.receipts and (
            issued := await self._issuer.issue(
                owner, controls.receipts, accrued, max(span.since_ms - DAY_MS, 0)
            )
        ):
            found += issued
        return found


async def judge_log(
    store: Store, owner: OwnedShard, view: ReferenceView, last_ms: int, links: Links = NO_LINKS
) -> list[Alert]:
    """Judge all minutes of a stored log at once."""
    return await LogJudge(store, view, links).judge(owner, last_ms)
