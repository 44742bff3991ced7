"""Reads which weekly digests are due, and their figures.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final

from schemas.columns import rows_of
from schemas.durations import WEEK_MS
from streams.costs.drivers import CostCell
from streams.engine.alerts.receipt_records import ReceiptRecord
from streams.engine.ledger_rules.periods import periods
from streams.estimate.ran import nano_of
from streams.notify.history import pieces
from streams.notify.links import Links
from streams.worker.ledger_judges.reader import Accrued, SqlStore
from streams.worker.receipts import digest_sql
from streams.worker.receipts.digest import ChangedCell, DigestSubject, SmallAlerts, WeekFigures, digest_of
from streams.worker.receipts.receipt import Receipt

#: Drivers and jobs of a digest.
SHOWN_AT_MOST: Final = 3
#: Each takes four statements.
_AT_ONCE: Final = 20


class DigestReader:
    """Digests of weeks that all shards have stored and that are not stored themselves."""

    def __init__(self, store: SqlStore, links: Links) -> None:
        self._store = store
        self._links = links
        self._done: set[str] = set()  # ids that are stored, or have nothing to say

    def due(self, records: Sequence[ReceiptRecord], accrued: Accrued, from_ms: int) -> list[Receipt]:
        """Some digests of weeks that ended in [from_ms, until]; none: all are stored."""
        subjects = {each.id: each for each in subjects_of(records, accrued, from_ms)}
        self._done.intersection_update(subjects)
        for ids in pieces(sorted(subjects.keys() - self._done)):
            self._done |= {
                row["receipt_id"] for row in rows_of(self._store.query(digest_sql.STORED, {"ids": ids}))
            }
        left = (subject for key, subject in sorted(subjects.items()) if key not in self._done)
        return list(islice(self._digests(left), _AT_ONCE))

    def _digests(self, subjects: Iterable[DigestSubject]) -> Iterator[Receipt]:
        for subject in subjects:
            figures = self._figures(subject)
            if figures.cost_nano or figures.previous_nano:
                yield digest_of(subject, figures, self._links)
            else:
                self._done.add(subject.id)

    def _figures(self, subject: DigestSubject) -> WeekFigures:
        bound = {
            "name": subject.name,
            "from_ms": subject.from_ms,
            "before_ms": subject.from_ms - WEEK_MS,
            "until_ms": subject.until_ms,
        }
        (row,) = rows_of(self._store.query(digest_sql.totals_sql(subject.kind), bound))
        shown = {**bound, "most": SHOWN_AT_MOST}
        changed = rows_of(self._store.query(digest_sql.drivers_sql(subject.kind), shown))
        largest = rows_of(self._store.query(digest_sql.largest_sql(subject.kind), shown))
        small = rows_of(self._store.query(digest_sql.small_alerts_sql(subject.kind), shown))
        return WeekFigures(
            cost_nano=nano_of(row["usd"]),
            previous_nano=nano_of(row["previous_usd"]),
            lost_nano=nano_of(row["lost_usd"]),
            gpu_nano=nano_of(row["gpu_usd"]),
            sampled_gpu_ms=int(row["sampled"]),
            productive_gpu_ms=int(row["productive"]),
            jobs=row["jobs"],
            changed=tuple(
                ChangedCell(
                    each["job_id"],
                    each["component"],
                    CostCell(nano_of(each["previous_usd"]), int(each["previous_amount"])),
                    CostCell(nano_of(each["usd"]), int(each["amount"])),
                )
                for each in changed
            ),
            largest=tuple((each["job_id"], nano_of(each["usd"])) for each in largest),
            small_alerts=tuple(
                SmallAlerts(each["rule"], int(each["alerts"]), tuple(each["subjects"])) for each in small
            ),
        )


def subjects_of(records: Sequence[ReceiptRecord], accrued: Accrued, from_ms: int) -> Iterator[DigestSubject]:
    """Yield the digests of weeks that ended in [from_ms, until] and after the records that ask for them."""
    if accrued.late:
        return
    for week in periods("week", from_ms - 1, accrued.until_ms):
        end_ms = week.end_ms
        if end_ms is None or end_ms > accrued.until_ms:
            continue
        for record in records:
            if record.on and record.since_ms < end_ms:
                if record.team:
                    yield DigestSubject("team", record.team, record.owner, week.start_ms, end_ms)
                else:
                    yield DigestSubject("owner", record.owner, record.owner, week.start_ms, end_ms)
