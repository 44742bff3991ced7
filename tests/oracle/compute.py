"""The oracle: every table of the contract from a whole event log, in plain Python integers.

Must import nothing of the project and take no short cut that a reader could not check against the contract.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tests.oracle.held import Held
from tests.oracle.hours import hour_rows
from tests.oracle.intake import JobLog, attempt_of, body, take_in
from tests.oracle.model import DAY_MS, AttemptRow, JobRow, Json, Line, Tables, context_of
from tests.oracle.nodes import node_hour_rows, node_rows
from tests.oracle.prices import PriceBook
from tests.oracle.rows import Ledger, book_samples, book_segment, book_traffic, payer_of, unattributed, usage
from tests.oracle.timeline import Interval, attempts_of, event_order, union

__all__ = ["Line", "PriceBook", "Tables", "compute", "compute_job"]


def compute(
    lines: Sequence[Line],
    *,
    as_of_ms: int | None = None,
    job_horizon_ms: int = DAY_MS,
    late_horizon_s: int = 600,
    run_start_ms: int | None = None,
) -> Tables:
    """All tables of a log; ids are remembered for ever, `as_of_ms` None is the newest valid event time."""
    accepted = take_in(
        lines, job_horizon_ms=job_horizon_ms, late_horizon_s=late_horizon_s, run_start_ms=run_start_ms
    )
    clock_ms = accepted.newest_ms if as_of_ms is None else as_of_ms
    book = PriceBook(accepted.prices)
    tables = Tables(dead=accepted.dead, counts=accepted.counts)
    for job_id, log in accepted.jobs.items():
        _book_job(tables, job_id, log, book, clock_ms)
    for node, events in accepted.nodes.items():
        rows = node_rows(node, events, book, clock_ms)
        tables.nodes.update(rows)
        tables.node_hours.update(node_hour_rows(events, rows, clock_ms))
    tables.unattributed = unattributed(accepted.unattributed)
    return tables


def price_book(lines: Iterable[Line]) -> PriceBook:
    """The price book of a log, for `compute_job`."""
    return PriceBook(body(line) for line in lines if line.topic == "prices" and line.valid)


def compute_job(
    lines: Iterable[Line], *, book: PriceBook, as_of_ms: int, late_horizon_s: int = 600
) -> Tables:
    """The tables of the jobs in `lines`, so that a large log can be compared job by job.

    Lateness in a partition needs the whole log: the caller must know that none of these lines is late there.
    """
    accepted = take_in(lines, job_horizon_ms=None, late_horizon_s=late_horizon_s, run_start_ms=None)
    tables = Tables(dead=accepted.dead, counts=accepted.counts)
    for job_id, log in accepted.jobs.items():
        _book_job(tables, job_id, log, book, as_of_ms)
    return tables


def _book_job(tables: Tables, job_id: str, log: JobLog, book: PriceBook, as_of_ms: int) -> None:
    attempts = attempts_of(log)
    said = last_said(log.events)
    team = payer_of(said)
    ledger = Ledger(job_id, book)
    lost: dict[int, list[Interval]] = {}
    covered: list[Interval] = []  # the wall-clock time of the attempts so far
    held = {attempt.number: Held(attempt, log) for attempt in attempts}
    for index, attempt in enumerate(attempts):
        segments = attempt.segments(as_of_ms)
        lost[attempt.number] = attempt.lost(has_lower=index > 0)
        for segment in segments:
            book_segment(ledger, attempt.number, segment, team, lost[attempt.number], held[attempt.number])
        samples = [s for s in log.samples if s.attempt == attempt.number]
        if attempt.metered:
            book_samples(ledger, attempt.number, samples, team)
        for minute, row in usage(samples).items():
            tables.usage[minute, job_id, attempt.number] = row
        for sample in samples:
            if sample.first_s < sample.end_s:
                where = (job_id, attempt.number, sample.node)
                tables.gpus.update(((*where, gpu), None) for gpu in sample.permille)
        # "the time in which at least one of its attempts is starting, running or held suspended"
        before_ms = _length_ms(covered)
        covered = union([*covered, *((s.start_ms, s.end_ms) for s in segments)])
        tables.attempts[job_id, attempt.number] = AttemptRow(attempt.state(), _length_ms(covered) - before_ms)
    for topic, event in log.traffic:
        book_traffic(ledger, topic, event, team, lost[attempt_of(event)], held[attempt_of(event)])
    tables.ledger.update(ledger.rows())
    tables.hours.update(hour_rows(job_id, log, attempts, held, ledger, as_of_ms))
    tables.jobs[job_id] = JobRow(
        state=attempts[-1].state(),  # the job is in the state of its highest attempt
        attempts=len(attempts),
        owner=said.get("owner"),
        team=said.get("team"),
        project=said.get("project"),
        experiment=said.get("experiment"),
        labels=context_of(said.get("labels") or {}),
        wall_clock_ms=_length_ms(covered),
        quality=newest(log.events, "quality"),
        progress=newest(log.events, "progress"),
        run_id=said.get("run_id"),
        work_dir=said.get("work_dir"),
    )


def last_said(events: Iterable[Json]) -> Mapping[str, Any]:
    """By the contract: "the latest by the same order (attempt first) wins, events after the end included"."""
    said: dict[str, Any] = {}
    for event in sorted(events, key=lambda e: (attempt_of(e), event_order(e))):
        for name in ("owner", "team", "project", "experiment", "labels", "run_id", "work_dir"):
            if event.get(name) is not None:
                said[name] = event[name]
    return said


def newest(events: Iterable[Json], kind: str) -> tuple[tuple[str, float], ...]:
    """By name, the value of the latest event that has it; "of more than 64 names the first by name are kept"."""
    values: dict[str, float] = {}
    for event in sorted(events, key=lambda e: (attempt_of(e), event_order(e))):
        values.update({name: float(value) for name, value in (event.get(kind) or {}).items()})
    return tuple(sorted(values.items())[:64])


def _length_ms(intervals: Iterable[Interval]) -> int:
    return sum(end_ms - start_ms for start_ms, end_ms in intervals)
