"""Reads in which hours jobs had run for far longer than similar completed jobs.

All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from schemas.columns import rows_of
from schemas.durations import HOUR_MS
from streams.engine.alerts.evidence import quoted
from streams.engine.alerts.formatting import rounded_usd, sentence, short, span
from streams.engine.ledger_rules.fleet_rules import UNUSUAL_LENGTH, FleetSettings, HourFinding
from streams.engine.ledger_rules.unusual_length import Lengths, RunTime, UsualLength
from streams.worker.ledger_rules import unusual_length_sql
from streams.worker.ledger_rules.reader import SqlStore
from streams.worker.ledger_rules.similar_jobs_words import jobs_of

#: Names of one parameter: ClickHouse refuses one of more than 128 KiB.
_JOBS_AT_ONCE: Final = 400


def unusual_lengths(store: SqlStore, of: FleetSettings, begin_ms: int, end_ms: int) -> Iterator[HourFinding]:
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
    for row in _hours(store, sorted(found), bound):
        job, owner, project = found[row["job_id"]]
        usual = lengths.usual(job, row["at_ms"])
        is_over = 0 < job.ended_ms < row["at_ms"]
        if usual is None or is_over or row["wall_ms"] <= factor * usual.p99_ms:
            continue
        if float(row["usd"]) >= of.thresholds["least_usd"]:
            yield _finding(job, usual, of, row, owner, project)


def _hours(store: SqlStore, jobs: Sequence[str], bound: dict[str, int]) -> Iterator[dict[str, Any]]:
    for begin in range(0, len(jobs), _JOBS_AT_ONCE):
        more = {**bound, "jobs": jobs[begin : begin + _JOBS_AT_ONCE]}
        yield from rows_of(store.query(unusual_length_sql.HOURS, more))


def _finding(
    job: RunTime, usual: UsualLength, of: FleetSettings, row: dict[str, Any], owner: str, project: str
) -> HourFinding:
    cost_nano, ratio = int(row["usd"].scaleb(9)), row["wall_ms"] / usual.p99_ms
    return HourFinding(
        UNUSUAL_LENGTH, of.severity, "job", job.job_id, row["at_ms"],
        sentence(lambda at_most: f"{short(job.job_id, at_most)} has run for {span(row['wall_ms'])} and {rounded_usd(cost_nano)},"
            f" 99 % of {jobs_of(usual.similarity, at_most)} took {span(usual.p99_ms)} at most; stop it if it no longer makes progress"),
        f"SELECT * FROM cost_hours WHERE job_id = {quoted(job.job_id)} ORDER BY hour",  # noqa: S608 - quoted() escapes the name
        ratio, 0, cost_nano, owner, job.team, project,
    )  # fmt: skip
