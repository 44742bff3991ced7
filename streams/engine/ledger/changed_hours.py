"""Decides which hours of a job changed, and hands them to be summed.

It compares what was written with what is; a row too many is harmless, as each is absolute.
"""

from __future__ import annotations

from collections.abc import Sequence

from schemas.durations import HOUR_MS
from streams.engine.coverage.fold_result import UsagePiece
from streams.engine.ledger.hour_pieces import pieces_of
from streams.engine.ledger.hour_rows import HourRows
from streams.engine.ledger.hour_singles import SingleSums
from streams.engine.ledger.open_hours import goes_on, open_hour
from streams.engine.ledger.sampled_minutes import MinutePrices, SampledMinutes
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import (
    MINUTES_PER_HOUR,
    NOTHING_BOOKED,
    BookedTime,
    Fields,
    HourPieces,
    Sums,
    usage_sums,
)
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import FieldStep, billed_pieces
from streams.engine.timeline.intervals import Interval, Span
from streams.engine.timeline.lines import Lines


def hours_of(span: Span) -> range:
    """Return the hours that a span touches."""
    return range(span[0] // HOUR_MS, -(-span[1] // HOUR_MS))


def mark_lines(attempt: AttemptState, old: Lines, new: Lines) -> None:
    """Mark the hours in which booked lines change."""
    for line in old.keys() | new.keys():
        before, after = old.get(line, []), new.get(line, [])
        if before is not after and before != after:
            attempt.changed_hours.update(hours_of(changed_span(before, after)))


def mark_time(job: JobState, as_of_ms: int) -> None:
    """Mark the hours in which billed time, waits or price fields differ from those written."""
    before, lines = job.booked_time_before(), job.timelines()
    if before.timelines is None:
        for attempt in job.attempts.values():
            for first, last in attempt.written.values():
                attempt.changed_hours.update(range(first, last + 1))
        before = NOTHING_BOOKED
    if before.timelines is lines and before.as_of_ms == as_of_ms:
        return
    known = before.timelines or {}
    old, new = billed_pieces(known, before.as_of_ms), billed_pieces(lines, as_of_ms)
    for number, line in lines.items():
        marked, was = job.attempts[number].changed_hours, known.get(number)
        billed = old.get(number, []), new[number]
        if billed[0] != billed[1]:
            marked.update(hours_of(changed_span(*billed)))
        if was is line:
            continue
        for waits in {*line.waits} ^ {*(was.waits if was is not None else ())}:
            marked.update(hours_of(waits))
        if was is not None and was.fields != line.fields:
            first_ms = min(job.first_ms, job.attempts[number].traffic.first_ms)
            if job.attempts[number].sampled:
                first_ms -= HOUR_MS  # as much as a sample covers at most
            since_ms = max(_first_difference(was.fields, line.fields), first_ms)
            end_ms = max([piece[1] for pieces in billed for piece in pieces[-1:]], default=0)
            marked.update(hours_of((since_ms, max(end_ms, job.last_ms + 1))))


def _first_difference(before: Sequence[FieldStep], after: Sequence[FieldStep]) -> int:
    """Return since when the fields differ."""
    common = 0
    while common < min(len(before), len(after)) and before[common] == after[common]:
        common += 1
    return min(steps[common][0] for steps in (before, after) if common < len(steps))


def changed_span(before: Sequence[Interval], after: Sequence[Interval]) -> Span:
    """Return a span outside which the intervals agree."""
    common = 0
    while common < min(len(before), len(after)) and before[common] == after[common]:
        common += 1
    rest = (*before[common:], *after[common:])
    start_ms = min(interval[0] for interval in rest)
    if common < min(len(before), len(after)) and before[common][::2] == after[common][::2]:
        start_ms = min(before[common][1], after[common][1])
        if before[common][3] != after[common][3]:
            start_ms = before[common][0]
    return start_ms, max(interval[1] for interval in rest)


def write_hours(
    job: JobState, rows: HourRows, sampled: SampledMinutes, prices: MinutePrices, as_of_ms: int
) -> None:
    """Hand over the marked hours of all attempts; they count as written up to the accrual instant."""
    _hand_over(job, rows, sampled, prices, as_of_ms)
    for number, attempt in job.attempts.items():
        attempt.changed_hours.clear()
        if attempt.owed_hours:
            attempt.owed_hours.clear()
            rows.forget_owed_hours(job.id, number)
    job.booked_time = BookedTime(job.timelines(), as_of_ms)


def write_put_off_hours(
    job: JobState, rows: HourRows, sampled: SampledMinutes, prices: MinutePrices, as_of_ms: int
) -> None:
    """Hand over the put-off hours as of the last accrual, as the minutes stand; the next accrual writes them again."""
    mark_time(job, as_of_ms)
    _hand_over(job, rows, sampled, prices, as_of_ms)
    put_off_hours(job)


def _hand_over(
    job: JobState, rows: HourRows, sampled: SampledMinutes, prices: MinutePrices, as_of_ms: int
) -> None:
    """Add the rows of the marked hours of all attempts."""
    lines = job.timelines()
    billed: dict[int, list[Interval]] | None = None
    for number, attempt in job.attempts.items():
        if not attempt.changed_hours and not attempt.owed_hours:
            continue
        marked = attempt.changed_hours | attempt.owed_hours
        line, singles = lines[number], SingleSums(job, attempt, lines[number], sampled, prices)
        known = attempt.open_hour
        if known is not None and goes_on(known, attempt, lines, marked, as_of_ms):
            sums = singles.of(known.hour)
            if sums.keys() <= known.places.keys():
                known.prolong(as_of_ms)
                rows.add_again(job.id, number, known, sums)
                continue
        if billed is None:
            billed = billed_pieces(lines, as_of_ms)
        for hour in sorted(marked):
            sums = singles.of(hour)
            pieces = pieces_of(attempt, line, hour, sums)
            places = _add_hour(job.id, attempt, hour, pieces, sums, rows)
            for fields, from_ms, until_ms in singles.sampled_spans(hour):
                rows.add_sampled(places[fields], from_ms, until_ms)
        waits: list[Interval] = [(*wait, 1, 0) for wait in line.waits]
        rows.add_curves(attempt.booked_lines, billed[number], waits)
        # Of several hours the last ones were added last.
        attempt.open_hour = open_hour(attempt, lines, pieces, tuple(places), billed[number], waits, as_of_ms)


def _add_hour(
    job_id: str, attempt: AttemptState, hour: int, pieces: HourPieces, singles: Sums, rows: HourRows
) -> dict[Fields, int]:
    """Add the rows of one hour, and an empty one for all price fields that it no longer has; return their positions."""
    places: dict[Fields, int] = {}

    def row_of(fields: Fields) -> int:
        row = places.get(fields)
        if row is None:
            row = places[fields] = rows.add_row(job_id, attempt.number, hour, fields, attempt.written)
        return row

    for from_ms, until_ms, fields in pieces.time:
        rows.add_piece(row_of(fields), from_ms, until_ms)
    for fields, sums in singles.items():
        rows.add_singles(row_of(fields), sums)
    for lo, hi, fields in pieces.usage:
        _add_usage(job_id, attempt, lo, hi, row_of(fields), rows)
    for fields, (first, last) in attempt.written.items():
        if first <= hour <= last:
            row_of(fields)  # empty unless it was added above
    return places


def _add_usage(job_id: str, attempt: AttemptState, lo: int, hi: int, row: int, rows: HourRows) -> None:
    """Add the usage of the minutes [lo, hi) of one hour to a row; what was evicted is of their price fields, too."""
    for minute, usage in attempt.evicted_in(lo // MINUTES_PER_HOUR):
        if lo <= minute < hi:
            rows.add_singles(row, usage_sums(usage))
    if hi > attempt.evicted_to:
        rows.add_usage(UsagePiece(job_id, attempt.number, max(lo, attempt.evicted_to), hi, row))


def put_off_hours(job: JobState) -> None:
    """Leave the marked hours for a later checkpoint; a snapshot includes them."""
    for attempt in job.attempts.values():
        attempt.owed_hours.update(attempt.changed_hours)
        attempt.changed_hours.clear()
