"""Decides which hours of a job changed, and hands them to be summed.

It compares what was written with what is; a row too many is harmless, as each is absolute.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from streams.engine.ledger.hour_rows import HourRows, PriceFields
from streams.engine.ledger.sampled_minutes import SampledMinutes, sampled_s
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hours import HOUR_MS, MINUTES_PER_HOUR, BookedTime
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import PAID_AT_MOST_MS, FieldStep, Timeline, billed_pieces
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
            attempt.changed_hours.update(hours_of(_changed_span(before, after)))


def mark_time(job: JobState, as_of_ms: int) -> None:
    """Mark the hours in which billed time, waits or price fields differ from those written."""
    before, lines = job.booked_time_before(), job.timelines()
    if before.timelines is None:
        for number in lines:
            _mark_all(job.attempts[number], max(as_of_ms, job.last_ms) + 1)
        return
    if before.timelines is lines and before.as_of_ms == as_of_ms:
        return
    old, new = billed_pieces(before.timelines, before.as_of_ms), billed_pieces(lines, as_of_ms)
    for number, line in lines.items():
        marked, was = job.attempts[number].changed_hours, before.timelines.get(number)
        billed = old.get(number, []), new[number]
        if billed[0] != billed[1]:
            marked.update(hours_of(_changed_span(*billed)))
        if was is line:
            continue
        for waits in {*line.waits} ^ {*(was.waits if was is not None else ())}:
            marked.update(hours_of(waits))
        if was is not None and was.fields != line.fields:
            first_ms = min(job.first_ms, job.attempts[number].traffic.first_ms)
            since_ms = max(_first_difference(was.fields, line.fields), first_ms)
            end_ms = max([piece[1] for pieces in billed for piece in pieces[-1:]], default=0)
            marked.update(hours_of((since_ms, max(end_ms, job.last_ms + 1))))


def _mark_all(attempt: AttemptState, until_ms: int) -> None:
    """Mark every hour that may have been written: time is billed or waited for at most so long after an event."""
    for event in attempt.events:
        span = event.time_ms, min(event.time_ms + PAID_AT_MOST_MS, until_ms)
        attempt.changed_hours.update(hours_of(span))


def _first_difference(before: Sequence[FieldStep], after: Sequence[FieldStep]) -> int:
    """Return since when the fields differ."""
    common = 0
    while common < min(len(before), len(after)) and before[common] == after[common]:
        common += 1
    return min(steps[common][0] for steps in (before, after) if common < len(steps))


def _changed_span(before: Sequence[Interval], after: Sequence[Interval]) -> Span:
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


def write_hours(job: JobState, rows: HourRows, sampled: SampledMinutes, as_of_ms: int) -> None:
    """Hand over the marked hours of all attempts; they count as written up to the accrual instant."""
    known, lines = job.booked_time_before().timelines, job.timelines()
    billed: dict[int, list[Interval]] | None = None
    for number, attempt in job.attempts.items():
        if not attempt.changed_hours and not attempt.owed_hours:
            continue
        if billed is None:
            billed = billed_pieces(lines, as_of_ms)
        hours = sorted(attempt.changed_hours | attempt.owed_hours)
        # What nobody has written need not be written as empty.
        is_new = known is not None and number not in known
        keeps = [not is_new or hour in attempt.owed_hours for hour in hours]
        line = lines[number]
        first = rows.add(job.id, number, hours, _fields(attempt, line, hours), keeps)
        rows.add_curves(attempt.booked_lines, billed[number], [(*wait, 1, 0) for wait in line.waits])
        if attempt.booked_traffic or attempt.booked_metered:
            for row, hour in enumerate(hours, first):
                rows.add_singles(row, _singles(job.id, attempt, hour, sampled))
        attempt.changed_hours.clear()
        attempt.owed_hours.clear()
    job.booked_time = BookedTime(lines, as_of_ms)


def put_off_hours(job: JobState) -> None:
    """Leave the marked hours for a later checkpoint; a snapshot includes them."""
    for attempt in job.attempts.values():
        attempt.owed_hours.update(attempt.changed_hours)
        attempt.changed_hours.clear()


def _singles(job_id: str, attempt: AttemptState, hour: int, sampled: SampledMinutes) -> list[int]:
    """Return the sums of traffic and metered rows in an hour."""
    known = attempt.row_sums.of(hour)
    if known is not None:
        return known
    minutes = range(hour * MINUTES_PER_HOUR, (hour + 1) * MINUTES_PER_HOUR)
    metered = [minute for minute in minutes if minute in attempt.booked_metered]
    missing = [minute for minute in metered if minute not in attempt.sampled_s]
    if missing:
        for minute, nodes in sampled.by_node(job_id, attempt.number, missing).items():
            attempt.sampled_s[minute] = sampled_s(nodes)
    rows = [attempt.booked_metered[minute] for minute in metered]
    rows += [attempt.booked_traffic[minute] for minute in minutes if minute in attempt.booked_traffic]
    return attempt.row_sums.put(hour, rows, 1000 * sum(attempt.sampled_s[minute] for minute in metered))


def _fields(attempt: AttemptState, line: Timeline, hours: Sequence[int]) -> Iterator[PriceFields]:
    """Yield the price fields at the end of each hour; of a metered attempt those of the hour's newest sample."""
    if line.metered and attempt.winners:
        for hour in hours:
            yield _sampled_fields(attempt, hour) or _fields_at(line, (hour + 1) * HOUR_MS)
    elif len(line.fields) == 1:
        yield from (line.fields[0][1] for _ in hours)
    else:
        yield from (_fields_at(line, (hour + 1) * HOUR_MS) for hour in hours)


def _sampled_fields(attempt: AttemptState, hour: int) -> PriceFields | None:
    for minute in range((hour + 1) * MINUTES_PER_HOUR - 1, hour * MINUTES_PER_HOUR - 1, -1):
        winner = attempt.winners.get(minute)
        if winner is not None:
            return winner.price_fields
    return None


def _fields_at(line: Timeline, until_ms: int) -> PriceFields:
    return next(fields for since_ms, fields in reversed(line.fields) if since_ms < until_ms)
