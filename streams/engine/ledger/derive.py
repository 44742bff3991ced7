"""Derives the rows of a job or node that changed: the one place where usage, time and prices meet.

State and prices in, rows out; the state records what was booked.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.durations import MINUTE_MS
from streams.engine.ledger.changed_hours import hours_of, mark_lines, mark_time, put_off_hours, write_hours
from streams.engine.ledger.hour_rows import HourRows
from streams.engine.ledger.hour_singles import is_cut, minute_fields
from streams.engine.ledger.node_hours import NodeHourRows, changed_node_hours
from streams.engine.ledger.rows import LedgerRows
from streams.engine.ledger.sampled_minutes import MinutePrices, SampledMinutes, sampled_s
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import NOBODY, Payer
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import MINUTES_PER_HOUR, MinuteLines
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import payer_in
from streams.engine.state.node import NodeState
from streams.engine.state.open_accruals import OpenAccruals, cut_lines
from streams.engine.state.traffic import MinuteRows
from streams.engine.state.unsaved import UnsavedParts
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Line, Lines, attempt_lines
from streams.engine.timeline.nodes import NodeSegment, node_lines

#: The quantities of a missing row.
_NOTHING: Final = (0, 0)


def derive_job(
    job: JobState,
    rows: LedgerRows,
    hours: HourRows,
    prices: MinutePrices,
    sampled: SampledMinutes,
    as_of_ms: int,
    *,
    open_attempts: bool,
) -> None:
    """Add the rows of `job` that differ from what was booked; open attempts only on request, and then its hours."""
    book, dimensions = prices.book, job.dimensions()
    payer, booked = payer_in(dimensions, book), payer_in(job.booked_dimensions, book)
    if payer != booked:
        job.redo_all()  # its rows may match other prices now
    for number, timeline in job.timelines().items():
        attempt = job.attempts[number]
        if attempt.has_start and (open_attempts or timeline.ended_ms is not None):
            _derive_time(job.id, attempt, timeline, rows, book, payer, as_of_ms)
        _derive_traffic(job.id, attempt, timeline, rows, book, payer)
        if attempt.dirty_metered:
            _derive_metered(job.id, attempt, timeline, rows, prices, sampled, payer)
    if open_attempts or job.has_ended:
        mark_time(job, as_of_ms)
        write_hours(job, hours, sampled, prices, as_of_ms)
    else:
        if not job.is_open:
            mark_time(job, as_of_ms)  # the next accrual looks at what is owed only
        put_off_hours(job)
    job.booked_dimensions, job.is_redone = dimensions, False
    # Open attempts left out now are due at the next checkpoint that includes them, whatever its accrual instant.
    job.booked_as_of_ms = as_of_ms if open_attempts or not job.is_open else -1


def accrue_job(
    job: JobState,
    rows: LedgerRows,
    hours: HourRows,
    prices: MinutePrices,
    sampled: SampledMinutes,
    as_of_ms: int,
) -> bool:
    """Extend the rows of a job of which only the accrual instant changed; return False if it must be derived instead."""
    dimensions = job.dimensions()
    if dimensions is not job.booked_dimensions or job.booked_time_before().timelines is not job.timelines():
        return False
    payer = payer_in(dimensions, prices.book)
    paid: list[tuple[AttemptState, OpenAccruals]] = []
    for number, timeline in job.timelines().items():
        attempt = job.attempts[number]
        if attempt.has_start:
            known = attempt.open_accruals
            if known is None or not known.covers(timeline, payer, as_of_ms):
                return False
            paid.append((attempt, known))
    for attempt, known in paid:
        _mark_accrual(attempt, known, as_of_ms)
        _accrue(known, job.id, attempt.number, rows, as_of_ms, attempt.unsaved)
    write_hours(job, hours, sampled, prices, as_of_ms)
    job.booked_as_of_ms = as_of_ms
    return True


def derive_node(
    node: NodeState,
    rows: LedgerRows,
    hours: NodeHourRows,
    book: PriceBook,
    as_of_ms: int,
    *,
    open_nodes: bool,
) -> None:
    """Add the rows of `node` that differ from what was booked; open time only on request."""
    if node.is_open and not open_nodes:
        return
    segments = node.segments()
    known, changed = node.open_accruals, node.owed_hours
    if known is not None and known.covers(segments, NOBODY, as_of_ms):
        if node.is_open and known.as_of_ms < as_of_ms:
            changed.update(hours_of((known.as_of_ms, as_of_ms)))
        _accrue(known, node.name, 0, rows, as_of_ms, None)
    else:
        lines = node_lines(segments, as_of_ms, book)
        rows.add_lines(node.name, 0, node.booked_lines, lines)
        changed.update(changed_node_hours(node, lines, as_of_ms))
        node.booked_lines, node.booked_segments = lines, segments
        node.open_accruals = _open_accruals(segments, book, lines, as_of_ms)
    hours.add(node, changed, as_of_ms)
    changed.clear()
    node.booked_as_of_ms = as_of_ms
    node.dirty = False


def _open_accruals(
    segments: tuple[NodeSegment, ...], book: PriceBook, booked: Lines, as_of_ms: int
) -> OpenAccruals | None:
    """Return what the next accrual of a node can reuse; None if a period of service ends after the accrual instant."""
    found = OpenAccruals(segments, NOBODY)
    if any(segment.goes_on for segment in segments):
        if any(not segment.goes_on and segment.end_ms > as_of_ms for segment in segments):
            return None  # it is not cut by the accrual instant
        found.track(node_lines(segments, OPEN_MS, book), booked, as_of_ms)
    return found


def _derive_time(
    job_id: str,
    attempt: AttemptState,
    timeline: Timeline,
    rows: LedgerRows,
    book: PriceBook,
    payer: Payer,
    as_of_ms: int,
) -> None:
    """Derive the lines of an attempt's billed time, up to the accrual instant if it is open."""
    known = attempt.open_accruals
    if known is not None and known.source is not timeline and _pays_alike(known.source, timeline):
        known.source = timeline  # a checkpoint event, for example, whose effect is unknown yet
    if known is not None and known.covers(timeline, payer, as_of_ms):
        _mark_accrual(attempt, known, as_of_ms)
        _accrue(known, job_id, attempt.number, rows, as_of_ms, attempt.unsaved)
        return
    attempt.open_accruals = OpenAccruals(timeline, payer)
    whole = attempt_lines(timeline.paid(OPEN_MS), timeline.lost, book, payer)
    lines = whole
    if timeline.ended_ms is None:
        lines = cut_lines(whole, as_of_ms)
        attempt.open_accruals.track(whole, lines, as_of_ms)
    rows.add_lines(job_id, attempt.number, attempt.booked_lines, lines)
    mark_lines(attempt, attempt.booked_lines, lines)
    attempt.unsaved.add_lines(attempt.booked_lines, lines)
    attempt.booked_lines = lines


def _accrue(
    known: OpenAccruals,
    owner_id: str,
    attempt: int,
    rows: LedgerRows,
    as_of_ms: int,
    unsaved: UnsavedParts | None,
) -> None:
    """Book the open lines up to an instant."""
    if as_of_ms == known.as_of_ms:
        return
    for line, intervals in known.growing:
        rows.prolong(owner_id, attempt, line, intervals, as_of_ms)
    known.advance(as_of_ms, unsaved)


def _mark_accrual(attempt: AttemptState, known: OpenAccruals, as_of_ms: int) -> None:
    """Mark the hours by which an open attempt grows; one that has ended was never tracked."""
    if 0 <= known.as_of_ms < as_of_ms:
        attempt.changed_hours.update(hours_of((known.as_of_ms, as_of_ms)))


def _pays_alike(one: object, other: Timeline) -> bool:
    """Return whether both timelines result in the same lines, at any prices and accrual instants."""
    return (
        isinstance(one, Timeline)
        and one.segments == other.segments
        and one.lost == other.lost
        and one.ended_ms == other.ended_ms
    )


def _derive_traffic(
    job_id: str, attempt: AttemptState, timeline: Timeline, rows: LedgerRows, book: PriceBook, payer: Payer
) -> None:
    if timeline.lost != attempt.booked_lost:
        attempt.dirty_traffic.extend(_minutes(timeline.lost, attempt.traffic.all_minutes()))
        attempt.dirty_traffic.extend(_minutes(attempt.booked_lost, attempt.traffic.all_minutes()))
        attempt.booked_lost = timeline.lost
        attempt.row_sums.forget()
    if not attempt.dirty_traffic:
        return
    attempt.row_sums.forget_unless(timeline.fields)
    ranges = union(attempt.dirty_traffic)
    attempt.dirty_traffic = []
    new = attempt.traffic.rows(ranges, book, payer, timeline.lost)
    for lo, hi in ranges:
        changed = _replace(job_id, attempt, timeline, attempt.booked_traffic, new, range(lo, hi), rows)
        attempt.unsaved.traffic_minutes.update(changed)


def _derive_metered(
    job_id: str,
    attempt: AttemptState,
    timeline: Timeline,
    rows: LedgerRows,
    prices: MinutePrices,
    sampled: SampledMinutes,
    payer: Payer,
) -> None:
    attempt.row_sums.forget_unless(timeline.fields)
    minutes = sorted(attempt.dirty_metered)
    attempt.dirty_metered = set()
    new: MinuteRows = {}
    if not attempt.has_start:  # otherwise the timeline is billed, and metered rows become zero
        found = sampled.by_node(job_id, attempt.number, minutes)
        for minute in minutes:
            winner = attempt.winners.get(minute)
            if winner is not None:
                new[minute] = prices.rows(minute, winner, found[minute], sampled, payer)
                _set_sampled(attempt, timeline, minute, sampled_s(found[minute]))
    else:
        attempt.sampled_s.clear()
    changed = _replace(job_id, attempt, timeline, attempt.booked_metered, new, minutes, rows)
    attempt.unsaved.metered_minutes.update(changed)


def _set_sampled(attempt: AttemptState, timeline: Timeline, minute: int, seconds: int) -> None:
    """Record the sampled seconds of a metered minute."""
    before = attempt.sampled_s.get(minute, 0)
    if before != seconds:
        hour = minute // MINUTES_PER_HOUR
        if attempt.row_sums.of(hour) is not None:
            more_ms = 1000 * (seconds - before)
            attempt.row_sums.add_wall_clock(minute, minute_fields(attempt, timeline, minute), more_ms)
        attempt.changed_hours.add(hour)
        attempt.sampled_s[minute] = seconds


def _replace(
    job_id: str,
    attempt: AttemptState,
    timeline: Timeline,
    booked: MinuteRows,
    new: MinuteRows,
    minutes: Iterable[int],
    rows: LedgerRows,
) -> list[int]:
    """Write the differences between booked and new rows; return their minutes, and record the new rows."""
    changed: list[int] = []
    nothing: dict[Line, tuple[int, int]] = {}
    places: dict[int, int] = {}  # by the identity of a line, whose hash takes longer than all else of a row
    for minute in minutes:
        before, after = booked.get(minute, nothing), new.get(minute, nothing)
        if before == after:
            continue
        changed.append(minute)
        _mark_rows(attempt, timeline, minute, before, after)
        if before:
            _change_rows(job_id, attempt.number, minute, before, after, rows)
        else:
            for line, quantities in after.items():
                place = places.get(id(line))
                if place is None:
                    place = places[id(line)] = rows.place_of(job_id, attempt.number, line)
                rows.add_at(place, minute, *quantities)
        if after:
            booked[minute] = after
        else:
            del booked[minute]
    return changed


def _mark_rows(
    attempt: AttemptState, timeline: Timeline, minute: int, before: MinuteLines, after: MinuteLines
) -> None:
    """Mark the hour of a minute whose rows change, and keep its sums up."""
    hour = minute // MINUTES_PER_HOUR
    attempt.changed_hours.add(hour)
    if attempt.row_sums.of(hour) is None:
        return
    if is_cut(attempt, timeline, minute):
        attempt.row_sums.forget(hour)
    else:
        attempt.row_sums.change(minute, minute_fields(attempt, timeline, minute), before, after)


def _change_rows(
    job_id: str, attempt: int, minute: int, before: MinuteLines, after: MinuteLines, rows: LedgerRows
) -> None:
    """Write the rows of a minute in which they differ from those booked."""
    for line, quantities in after.items():
        if before.get(line) != quantities:
            rows.add_row(job_id, attempt, line, minute, *quantities, before.get(line, _NOTHING)[0])
    gone = [line for line in before if line not in after]
    if gone:
        standing = {line.row_key for line in after}
        for line in gone:
            if line.row_key in standing:
                rows.retract(job_id, attempt, line, minute, before[line][0])
            else:
                rows.add_row(job_id, attempt, line, minute, 0, 0, before[line][0])


def _minutes(spans: tuple[Span, ...], within: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the minute ranges [lo, hi) that the spans touch, inside `within`."""
    ranges = ((start // MINUTE_MS, -(-end // MINUTE_MS)) for start, end in spans)
    return [
        (max(lo, within[0]), min(hi, within[1]))
        for lo, hi in ranges
        if max(lo, within[0]) < min(hi, within[1])
    ]
