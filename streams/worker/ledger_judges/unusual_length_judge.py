"""Reads in which hours jobs had run for far longer than similar completed jobs.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator

from schemas.columns import rows_of
from schemas.durations import HOUR_MS
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.unusual_length import Lengths, RunTime, finding
from streams.worker.ledger_judges import unusual_length_sql
from streams.worker.ledger_judges.named_rows import named_rows
from streams.worker.ledger_judges.reader import SqlStore


def unusual_lengths(
    store: SqlStore, of: LedgerSettings, begin_ms: int, end_ms: int
) -> Iterator[LedgerFinding]:
    """Yield where the rule holds at the whole hours in (begin_ms, end_ms]."""
    bound = {"from_ms": begin_ms, "to_ms": end_ms}
    completed = [RunTime(**row) for row in rows_of(store.query(unusual_length_sql.COMPLETED, bound))]
    if not completed:
        return
    hours = range(begin_ms + HOUR_MS, end_ms + 1, HOUR_MS)
    lengths, factor = Lengths(completed, hours, int(of.thresholds["jobs"])), of.thresholds["factor"]
    found: dict[str, tuple[RunTime, str, str]] = {}
    for row in rows_of(store.query(unusual_length_sql.RAN, bound)):
        owner, project = row.pop("owner"), row.pop("project")
        job = RunTime(**row)
        if lengths.may_exceed(job, factor):
            found[job.job_id] = job, owner, project
    for row in named_rows(store, unusual_length_sql.HOURS, "jobs", sorted(found), **bound):
        job, owner, project = found[row["job_id"]]
        usual = lengths.usual(job, row["at_ms"])
        is_over = 0 < job.ended_ms < row["at_ms"]
        if usual is None or is_over or row["wall_ms"] <= factor * usual.p99_ms:
            continue
        if float(row["usd"]) >= of.thresholds["least_usd"]:
            yield finding(of, job, usual, row, owner, project)
