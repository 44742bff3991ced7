"""Reads which jobs are due a receipt, and what they cost.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import DAY_MS
from streams.engine.alerts.receipt_records import ReceiptRecord
from streams.engine.ledger_rules.subject import NEXT_ATTEMPT_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.rules import run_jobs
from streams.errors import TrainfareError
from streams.estimate.asking import Records, job_facts, other_purchase, ran_job, usual_cost, with_past
from streams.estimate.elsewhere import SPOT, Elsewhere, compared
from streams.estimate.prices import STORED_PRICES, price_book
from streams.estimate.ran import nano_of
from streams.explain import run
from streams.notify.links import NO_LINKS, Links
from streams.worker.ledger_judges.reader import Accrued, SqlStore
from streams.worker.receipts import receipt_sql
from streams.worker.receipts.receipt import (
    Cheaper,
    EndedJob,
    Figures,
    Receipt,
    RunCost,
    UsualCost,
    receipt_of,
)

#: A job that reopens again and again gets so many receipts in a day.
PER_JOB_AND_DAY: Final = 3
#: Each takes some ten statements.
AT_ONCE: Final = 20
#: Owners in one statement: ClickHouse refuses a parameter of more than 128 KiB.
_OWNERS: Final = 400


def records_of(store: SqlStore) -> Records:
    """A function that runs a statement and returns its rows as objects."""

    def records(sql: str, **parameters: object) -> list[dict[str, object]]:
        return [*rows_of(store.query(sql, parameters))]

    return records


class ReceiptReader:
    """Receipts of jobs that ended."""

    def __init__(self, records: Records, links: Links = NO_LINKS) -> None:
        self._ask = records
        self._links = links

    def now(self, job_id: str) -> Receipt | None:
        """The receipt of one job by what the store has of it now, sent or not; None: it has not ended, or is unknown."""
        jobs = [EndedJob(**row) for row in self._records(receipt_sql.ENDED, job=job_id)]
        return self._receipts(jobs)[0] if jobs else None

    def due(self, records: Sequence[ReceiptRecord], accrued: Accrued, from_ms: int) -> list[Receipt]:
        """Some receipts of jobs that have none yet and ended from `from_ms` on, the earliest first; none: all are stored."""
        since_ms = wanted_since(records)
        owners = sorted(since_ms)
        bound = {
            "until_ms": accrued.until_ms,
            "from_ms": from_ms,
            "late": list(accrued.late),
            "next_attempt_ms": NEXT_ATTEMPT_MS,
            "day_ms": DAY_MS,
            "at_most": PER_JOB_AND_DAY,
            "limit": AT_ONCE,
        }
        jobs: list[EndedJob] = []
        for at in range(0, len(owners), _OWNERS):
            some = owners[at : at + _OWNERS]
            rows = self._records(
                receipt_sql.DUE, **bound, owners=some, since=[since_ms[owner] for owner in some]
            )
            jobs += [EndedJob(**row) for row in rows]
        jobs = sorted(jobs, key=lambda job: (job.ended_ms, job.job_id))[:AT_ONCE]
        return self._receipts(jobs) if jobs else []

    def _records(self, sql: str, **parameters: object) -> list[dict[str, Any]]:
        return self._ask(sql, **parameters)

    def _receipts(self, jobs: Sequence[EndedJob]) -> list[Receipt]:
        book = price_book(self._records(STORED_PRICES))
        bound = {"jobs": [job.job_id for job in jobs]}
        ended = [job.ended_ms for job in jobs]
        totals = _by_job(self._records(receipt_sql.TOTALS, **bound))
        broken = _by_job(self._records(receipt_sql.BROKEN, **bound))
        expected = _by_job(self._records(receipt_sql.EXPECTED, **bound, ended=ended))
        return [
            receipt_of(
                job,
                self._figures(
                    job,
                    book,
                    totals.get(job.job_id, {}),
                    broken.get(job.job_id, {}),
                    expected.get(job.job_id, {}),
                ),
                self._links,
            )
            for job in jobs
        ]

    def _figures(
        self,
        job: EndedJob,
        book: PriceBook,
        totals: Mapping[str, Any],
        broken: Mapping[str, Any],
        expected: Mapping[str, Any],
    ) -> Figures:
        is_unpriced = bool(totals.get("is_unpriced"))
        minutes = expected.get("minutes", 0)
        return Figures(
            cost_nano=nano_of(totals.get("usd", "0")),
            lost_nano=nano_of(totals.get("lost_usd", "0")),
            sampled_gpu_ms=int(totals.get("sampled", 0)),
            productive_gpu_ms=int(totals.get("productive", 0)),
            is_unpriced=is_unpriced,
            preemptions=broken.get("preemptions", 0),
            failures=broken.get("failures", 0),
            expected_nano_per_hour=round(nano_of(expected["usd"]) / minutes) if minutes else None,
            usual=self._usual(job),
            # What it cost is not known: nor what would have cost less.
            cheaper=None if is_unpriced else self._cheaper(job.job_id, book),
            run=self._run(job),
        )

    def _run(self, job: EndedJob) -> RunCost | None:
        search = run_jobs.search_of(self._records(run.JOB, job=job.job_id))
        if search is None:
            return None
        until = {"to_ms": job.ended_ms - 1}  # what began after it is not of its receipt, whoever writes it
        found = run_jobs.found_run(search, self._records(run.JOBS, **run.bound(search) | until))
        if found is None:
            return None
        detail = run.run_detail(found, self._records(run.COSTS, jobs=found.names))
        costs = (nano_of(detail[name]) for name in ("cost_usd", "lost_cost_usd"))
        return RunCost(detail["name"], detail["job_count"], *costs)

    def _usual(self, job: EndedJob) -> UsualCost | None:
        names = {
            name: getattr(job, name)
            for name in ("team", "project", "experiment", "gpu_type", "purchase", "gpus")
        }
        found = usual_cost(self._records, names, job.job_id, job.ended_ms)
        if found is None:
            return None
        kind, jobs, median_nano = found
        return UsualCost({name: names[name] for name in kind}, jobs, median_nano)

    def _cheaper(self, job_id: str, book: PriceBook) -> Cheaper | None:
        try:
            facts = job_facts(self._records, job_id)
            was = facts["fields"].get("purchase", "")
            there = Elsewhere({"purchase": other_purchase(was)})
            if was != SPOT:
                there = with_past(self._records, facts, there)
            found = compared(ran_job(self._records, job_id, there, book), there, book)
        except TrainfareError:
            return None  # it paid for nothing, its minutes were dropped, or there is no such price
        if found.elsewhere.cost_nano >= found.ran.cost_nano:
            return None
        return Cheaper(there.fields["purchase"], found.elsewhere.cost_nano)


def wanted_since(records: Sequence[ReceiptRecord]) -> dict[str, int]:
    """The owners who want receipts of their jobs, and from which end on."""
    since_ms: dict[str, int] = {}
    for record in records:
        if record.on and not record.team:
            since_ms[record.owner] = min(since_ms.get(record.owner, record.since_ms), record.since_ms)
    return since_ms


def _by_job(rows: Sequence[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    return {row["job_id"]: row for row in rows}
