"""From a job's state to the rows that changed: the one place where usage, time and prices meet.

Pure: state and prices in, rows out, and the state remembers what it gave out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from streams.pipeline.attempt import Attempt
from streams.pipeline.job import Job
from streams.pipeline.ledger import LedgerRows
from streams.pipeline.metered import NodeSeconds, minute_rows
from streams.pipeline.node import NodeState
from streams.pipeline.traffic import MINUTE_MS, MinuteRows
from streams.pricing.book import PriceBook
from streams.timeline.attempts import Timeline
from streams.timeline.intervals import Span, union
from streams.timeline.lines import Line, attempt_lines
from streams.timeline.nodes import node_lines

#: The sampled seconds of (job_id, attempt, minute), by node.
SampledMinute = Callable[[str, int, int], Sequence[NodeSeconds]]


def derive_job(
    job: Job,
    rows: LedgerRows,
    book: PriceBook,
    sampled: SampledMinute,
    as_of_ms: int,
    *,
    open_attempts: bool,
) -> None:
    """Add the rows of `job` that differ from what was booked; attempts that go on only if asked for."""
    dimensions = job.dimensions()
    if (dimensions.team, dimensions.project) != job.booked_dimensions[1:3]:
        job.redo_all()  # its rows may match other prices now
    for number, timeline in job.timelines().items():
        attempt = job.attempts[number]
        team, project = dimensions.team, dimensions.project
        if attempt.has_start and (open_attempts or timeline.ended_ms is not None):
            lines = attempt_lines(timeline.paid(as_of_ms), timeline.lost, book, team, project)
            rows.add_lines(job.id, number, attempt.booked_lines, lines)
            attempt.unsaved.note_lines(attempt.booked_lines, lines)
            attempt.booked_lines = lines
        _derive_traffic(job.id, attempt, timeline, rows, book, team, project)
        _derive_metered(job.id, attempt, rows, book, sampled, team, project)
    job.booked_dimensions = dimensions
    # What goes on and was left out now is due at the next checkpoint that asks for it, whatever its clock.
    job.booked_as_of_ms = as_of_ms if open_attempts or not job.is_open else -1


def derive_node(
    node: NodeState, rows: LedgerRows, book: PriceBook, as_of_ms: int, *, open_nodes: bool
) -> None:
    """Add the rows of `node` that differ from what was booked."""
    if node.is_open and not open_nodes:
        return
    lines = node_lines(node.segments(), as_of_ms, book)
    rows.add_lines(node.name, 0, node.booked_lines, lines)
    node.booked_lines = lines
    node.booked_as_of_ms = as_of_ms
    node.dirty = False


def _derive_traffic(
    job_id: str,
    attempt: Attempt,
    timeline: Timeline,
    rows: LedgerRows,
    book: PriceBook,
    team: str | None,
    project: str | None,
) -> None:
    if timeline.lost != attempt.booked_lost:
        attempt.dirty_traffic.extend(_minutes(timeline.lost, attempt.traffic.all_minutes()))
        attempt.dirty_traffic.extend(_minutes(attempt.booked_lost, attempt.traffic.all_minutes()))
        attempt.booked_lost = timeline.lost
    if not attempt.dirty_traffic:
        return
    ranges = union(attempt.dirty_traffic)
    attempt.dirty_traffic = []
    new = attempt.traffic.rows(ranges, book, team, project, timeline.lost)
    for lo, hi in ranges:
        changed = _replace(job_id, attempt.number, attempt.booked_traffic, new, range(lo, hi), rows)
        attempt.unsaved.traffic_minutes.update(changed)


def _derive_metered(
    job_id: str,
    attempt: Attempt,
    rows: LedgerRows,
    book: PriceBook,
    sampled: SampledMinute,
    team: str | None,
    project: str | None,
) -> None:
    if not attempt.dirty_metered:
        return
    minutes = sorted(attempt.dirty_metered)
    attempt.dirty_metered = set()
    new: MinuteRows = {}
    if not attempt.has_start:  # else the timeline pays, and what was metered goes to zero
        for minute in minutes:
            winner = attempt.winners.get(minute)
            if winner is not None:
                holders = sampled(job_id, attempt.number, minute)
                new[minute] = minute_rows(minute, winner.price_fields, holders, book, team, project)
    changed = _replace(job_id, attempt.number, attempt.booked_metered, new, minutes, rows)
    attempt.unsaved.metered_minutes.update(changed)


def _replace(
    job_id: str,
    attempt: int,
    booked: MinuteRows,
    new: MinuteRows,
    minutes: Iterable[int],
    rows: LedgerRows,
) -> list[int]:
    """Write what differs between booked and new rows of the minutes, which it returns; remember the new ones."""
    changed: list[int] = []
    nothing: dict[Line, tuple[int, int]] = {}
    for minute in minutes:
        before, after = booked.get(minute, nothing), new.get(minute, nothing)
        if before == after:
            continue
        changed.append(minute)
        for line, quantities in after.items():
            if before.get(line) != quantities:
                rows.add_row(job_id, attempt, line, minute, *quantities)
        standing = {line.row_key for line in after}
        for line in before:
            if line.row_key not in standing:
                rows.add_row(job_id, attempt, line, minute, 0, 0)
        if after:
            booked[minute] = after
        else:
            del booked[minute]
    return changed


def _minutes(spans: tuple[Span, ...], within: tuple[int, int]) -> list[tuple[int, int]]:
    """Minute ranges [lo, hi) that the spans touch, inside `within`."""
    ranges = ((start // MINUTE_MS, -(-end // MINUTE_MS)) for start, end in spans)
    return [
        (max(lo, within[0]), min(hi, within[1]))
        for lo, hi in ranges
        if max(lo, within[0]) < min(hi, within[1])
    ]
