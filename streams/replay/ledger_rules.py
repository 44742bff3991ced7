"""Judges the rules across jobs over a replayed log, after its ledger is stored, as a worker would have while it was.

It must not judge by itself: it steps the worker's judge through the log's minutes, with the controls of each of them.
"""

from __future__ import annotations

from typing import Final

from sinks.port import Store
from streams.engine.alerts.alert import Alert
from streams.engine.kernels.burn import HOUR_MS
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.ledger_rules.usage import MINUTE_MS
from streams.engine.reference_log import ReferenceView
from streams.notify.links import NO_LINKS, Links
from streams.threads import Threads
from streams.worker.ledger_rules.budget_judge import BudgetJudge
from streams.worker.ledger_rules.fleet_judge import FleetJudge
from streams.worker.ledger_rules.hourly import stretches
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


async def judge_log(
    store: Store, owner: OwnedShard, view: ReferenceView, last_ms: int, links: Links = NO_LINKS
) -> list[Alert]:
    """Judge all minutes up to `last_ms` that were not judged before; return the changes of alerts and the receipts, which are stored.

    `view`: prices and controls by log time, at the beginning of the log; `links`: what those of receipts begin with.
    """
    threads = Threads("ledger-rules")
    reader = LedgerReader(store)
    first_ms = await threads.run(reader.first_ms)
    end_ms = last_ms // MINUTE_MS * MINUTE_MS
    if first_ms is None or first_ms >= end_ms:
        return []
    known = await threads.run(store.meta.get, JUDGED_KEY)
    since_ms = None if known is None else int(known)
    memory = KnownAlerts(store)
    judge, fleet = BudgetJudge(reader, memory), FleetJudge(store, memory)
    writer = RuleRowWriter(store, lambda: True)
    issuer = ReceiptIssuer(store, writer, NoAlertSink(), links)
    found: list[Alert] = []
    begin_ms = first_ms if since_ms is None else since_ms
    for controls, span in stretches(view, begin_ms, end_ms, _STEP_MS):
        # An hour before them: rates are those of the last hour.
        from_ms = (span.since_ms // HOUR_MS - 1) * HOUR_MS
        changes = await threads.run(judge.judge, controls, Minutes(since_ms, span.until_ms), from_ms)
        changes.alerts.extend(await threads.run(fleet.judge, controls, *span))
        await threads.run(writer.write, owner, rows_of(owner, changes))
        memory.stored(changes.alerts)
        found += changes.alerts
        from_day_ms = max((first_ms if since_ms is None else since_ms) - DAY_MS, 0)
        accrued = Accrued(span.until_ms, span.until_ms)
        while controls.receipts and (
            issued := await issuer.issue(owner, controls.receipts, accrued, from_day_ms)
        ):
            found += issued
        since_ms = span.until_ms
    await threads.run(store.meta.put, JUDGED_KEY, str(end_ms))
    return found
