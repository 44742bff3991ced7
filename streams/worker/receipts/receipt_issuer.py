"""Stores the receipts of jobs that ended and weekly digests, and then hands them to the notifier."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from schemas.durations import DAY_MS
from sinks.port import Store
from streams.engine.alerts.receipt_records import ReceiptRecord
from streams.notify.history import RECEIPT_SHARD
from streams.notify.links import Links
from streams.notify.notice import Notice, notice_of
from streams.threads import Threads
from streams.worker.ledger_judges.reader import Accrued
from streams.worker.ledger_judges.rule_rows import RuleRows, RuleRowWriter
from streams.worker.receipts.digest_reader import DigestReader
from streams.worker.receipts.receipt import Receipt
from streams.worker.receipts.receipt_reader import ReceiptReader, records_of
from streams.worker.receipts.receipt_rows import receipt_rows
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.ports import AlertSink


class _Attempt(NamedTuple):
    """What one insert stores."""

    owner: OwnedShard
    receipts: list[Receipt]
    rows: RuleRows


class ReceiptIssuer:
    """Call `issue` whenever more is settled, until it returns nothing."""

    def __init__(self, store: Store, writer: RuleRowWriter, alert_sink: AlertSink, links: Links) -> None:
        self._reader = ReceiptReader(records_of(store), links)
        self._digests = DigestReader(store, links)
        self._writer = writer
        self._alert_sink = alert_sink
        # Of its own: the rules across jobs do not wait for it.
        self._threads = Threads("receipts")
        self._unsure: _Attempt | None = None  # the store may have it, though it did not say so

    def _due(self, records: Sequence[ReceiptRecord], accrued: Accrued, from_ms: int) -> list[Receipt]:
        return self._reader.due(records, accrued, from_ms) or self._digests.due(records, accrued, from_ms)

    async def issue(
        self,
        owner: OwnedShard,
        records: Sequence[ReceiptRecord],
        accrued: Accrued,
        from_ms: int | None = None,
        holds: Callable[[Accrued], bool] | None = None,
    ) -> list[Notice] | None:
        """Store some of what is due and hand it on; return it. None: `accrued` is not true any more, so that nothing was stored.

        Args:
            owner: Shard 0.
            records: Who wants receipts.
            accrued: Up to when figures are settled.
            from_ms: Of which ends; a day before what is settled if absent.
            holds: Whether `accrued` is still true once figures are read; figures are of no use where it is not. Absent: nobody else writes.

        Raises:
            SinkError: The store could not be read or written; the next call issues the same, under the same ids.
        """
        if from_ms is None:
            from_ms = accrued.until_ms - DAY_MS
        attempt = self._unsure
        if attempt is None or attempt.owner is not owner:
            receipts = await self._threads.run(self._due, records, accrued, from_ms)
            if not receipts:
                return []
            if holds is not None and not await self._threads.run(holds, accrued):
                return None
            attempt = _Attempt(owner, receipts, receipt_rows(receipts, owner.versions.next()))
        self._unsure = attempt
        await self._threads.run(self._writer.write, owner, [attempt.rows])
        self._unsure = None
        notices = [notice_of(each.message, each.owner) for each in attempt.receipts]
        if not owner.gone:
            self._alert_sink.offer(notices, RECEIPT_SHARD)
        return notices
