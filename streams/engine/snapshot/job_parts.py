"""Encodes what changed in a job since its last snapshot, and applies it to a restored job.

The encoding only. A part depends on all before it: if the job is unknown, the part is skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from schemas.durations import BEGINNING_MS
from schemas.events import JobEvent
from streams.engine.kernels.store import BEGINNING_MINUTE
from streams.engine.snapshot.job_blobs import BookedRows, dump_rows, load_line, load_rows
from streams.engine.state.attempt import AttemptState, Winner
from streams.engine.state.changes import OwedHour
from streams.engine.state.heartbeats import Heartbeats
from streams.engine.state.hour_measures import MinuteUsage
from streams.engine.state.job import JobState
from streams.engine.state.laps import ProgressLaps
from streams.engine.state.measures import Measure
from streams.engine.state.pace import ProgressPace
from streams.engine.state.said import JobDimensions
from streams.engine.state.traffic import Basis, MinuteRows
from streams.engine.state.unsaved import GONE, NO_HOURS
from streams.engine.timeline.intervals import Interval, Span
from streams.engine.timeline.lines import Line


class AttemptPart(msgspec.Struct, array_like=True):
    """Changes of an attempt; a listed minute without a row is no longer booked."""

    number: int
    sampled: bool
    events: list[JobEvent]
    traffic: tuple[bytes, bytes, bytes, bytes, list[Basis]]
    metered_minutes: list[int]
    winners: list[tuple[int, Winner]]
    booked_metered: BookedRows
    traffic_minutes: list[int]
    booked_traffic: BookedRows
    dirty_traffic: list[tuple[int, int]]
    dirty_metered: list[int]
    booked_lines: list[tuple[Line, int, list[Interval]]]
    booked_lost: list[Span]
    owed_hours: list[int] = []
    written: list[tuple[tuple[str, ...], tuple[int, int]]] = []
    evicted_to: int = BEGINNING_MINUTE
    evicted_usage: list[tuple[int, MinuteUsage]] = []


class JobPart(msgspec.Struct, array_like=True):
    """Changes of a job."""

    id: str
    flags: int
    seen: bytes
    first_ms: int
    last_ms: int
    booked_as_of_ms: int
    booked_dimensions: JobDimensions
    attempts: list[AttemptPart]
    heard_ms: int = BEGINNING_MS
    measures: list[Measure] = []
    pace: ProgressPace | None = None
    laps: ProgressLaps | None = None
    heartbeats: Heartbeats | None = None


class PaidPart(msgspec.Struct, array_like=True, gc=False):
    """The only change of a job is its accrual: every line of an attempt that ended at one instant ends at another.

    An accrual writes all hours, so none is owed any more.
    """

    id: str
    flags: int
    first_ms: int
    last_ms: int
    attempt: int
    from_ms: int
    until_ms: int
    heard_ms: int = BEGINNING_MS


def dump_paid(job: JobState, flags: int) -> PaidPart | None:
    """Encode the changes since `mark_saved`, and mark the job again; return None if there is more than an accrual."""
    if job.seen.has_fresh:
        return None
    paid: AttemptState | None = None
    for attempt in job.attempts.values():
        if attempt.owed_hours or not attempt.is_only_accrual_unsaved:
            return None
        if attempt.unsaved.paid_ms is not None:
            if paid is not None:
                return None
            paid = attempt
    if paid is None or paid.unsaved.paid_ms is None:
        return None
    from_ms, until_ms = paid.unsaved.paid_ms
    if until_ms != job.booked_as_of_ms:
        return None
    paid.unsaved.paid_ms = None
    for attempt in job.attempts.values():
        attempt.unsaved.owed_hours = NO_HOURS
    return PaidPart(job.id, flags, job.first_ms, job.last_ms, paid.number, from_ms, until_ms, job.heard_ms)


def apply_paid(job: JobState, part: PaidPart) -> None:
    """Move the line ends; the caller must drop what was derived from the job before."""
    job.set_times(part.first_ms, part.last_ms, part.heard_ms)
    job.booked_as_of_ms = part.until_ms
    for attempt in job.attempts.values():
        attempt.owed_hours.clear()
    for intervals in job.attempts[part.attempt].booked_lines.values():
        start_ms, end_ms, rate, flag = intervals[-1]
        if end_ms == part.from_ms:
            intervals[-1] = (start_ms, part.until_ms, rate, flag)


def dump_owed(jobs: Mapping[str, JobState], owed: Iterable[OwedHour]) -> list[OwedHour]:
    """Encode hours of jobs of which nothing else changed but samples, in order, and mark them as saved."""
    dumped = sorted(owed)
    for each in dumped:
        jobs[each.job_id].attempts[each.attempt].unsaved.owed_hours |= {each.hour}
    return dumped


def apply_owed(job: JobState, owed: OwedHour) -> None:
    """Make the hour due."""
    job.attempts[owed.attempt].owed_hours.add(owed.hour)


def dump_part(job: JobState, flags: int) -> JobPart:
    """Encode the changes since `mark_saved`, and mark the job again."""
    part = JobPart(
        id=job.id,
        flags=flags,
        seen=job.seen.drain_new(),
        first_ms=job.first_ms,
        last_ms=job.last_ms,
        booked_as_of_ms=job.booked_as_of_ms,
        booked_dimensions=job.booked_dimensions,
        attempts=[_dump_attempt(attempt) for attempt in job.attempts.values() if attempt.is_unsaved],
        heard_ms=job.heard_ms,
        measures=job.measures.dump(),
        pace=job.pace,
        laps=job.laps,
        heartbeats=job.heartbeats,
    )
    job.mark_saved()
    return part


def _dump_attempt(attempt: AttemptState) -> AttemptPart:
    unsaved = attempt.unsaved
    unsaved.spell_out(attempt.booked_lines)
    metered, moved = sorted(unsaved.metered_minutes), sorted(unsaved.traffic_minutes)
    return AttemptPart(
        number=attempt.number,
        sampled=attempt.sampled,
        events=attempt.events[unsaved.events :],
        traffic=attempt.traffic.dump(unsaved.amounts),
        metered_minutes=metered,
        winners=[(minute, attempt.winners[minute]) for minute in metered if minute in attempt.winners],
        booked_metered=dump_rows(_of(attempt.booked_metered, metered)),
        traffic_minutes=moved,
        booked_traffic=dump_rows(_of(attempt.booked_traffic, moved)),
        dirty_traffic=attempt.dirty_traffic,
        dirty_metered=sorted(attempt.dirty_metered),
        booked_lines=[
            (line, GONE, [])
            if (booked := attempt.booked_lines.get(line)) is None
            else (line, max(first, 0), booked[max(first, 0) :])
            for line, first in unsaved.lines.items()
        ],
        booked_lost=list(attempt.booked_lost),
        owed_hours=sorted(attempt.owed_hours),
        written=list(attempt.written.items()),
        evicted_to=attempt.evicted_to,
        evicted_usage=[(minute, attempt.evicted_usage[minute]) for minute in sorted(unsaved.evicted_minutes)],
    )


def _of(rows: MinuteRows, minutes: list[int]) -> MinuteRows:
    return {minute: rows[minute] for minute in minutes if minute in rows}


def apply_part(job: JobState, part: JobPart) -> None:
    """Apply the changes; the caller must drop what was derived from the job before."""
    job.seen.add_all(part.seen)
    job.set_times(part.first_ms, part.last_ms, part.heard_ms)
    job.booked_as_of_ms, job.booked_dimensions = part.booked_as_of_ms, part.booked_dimensions
    job.measures.load(part.measures)
    job.pace, job.laps, job.heartbeats = part.pace, part.laps, part.heartbeats
    for each in part.attempts:
        for event in each.events:
            job.measures.add(event)
        _apply_attempt(job.attempt(each.number), each)
    job.note_usage()


def _apply_attempt(attempt: AttemptState, part: AttemptPart) -> None:
    attempt.sampled = part.sampled
    attempt.load_events(part.events)
    attempt.traffic.extend(part.traffic)
    winners = dict(part.winners)
    attempt.add_fields(winners.values())
    for minute in part.metered_minutes:
        attempt.winners.pop(minute, None)
        attempt.booked_metered.pop(minute, None)
        if minute in winners:
            attempt.winners[minute] = winners[minute]
    attempt.booked_metered.update(load_rows(part.booked_metered))
    for minute in part.traffic_minutes:
        attempt.booked_traffic.pop(minute, None)
    attempt.booked_traffic.update(load_rows(part.booked_traffic))
    attempt.dirty_traffic = part.dirty_traffic
    attempt.dirty_metered = set(part.dirty_metered)
    for named, first, intervals in part.booked_lines:
        line = load_line(named)
        if first == GONE:
            attempt.booked_lines.pop(line, None)
        else:
            attempt.booked_lines[line] = [*attempt.booked_lines.get(line, [])[:first], *intervals]
    attempt.booked_lost = tuple(part.booked_lost)
    attempt.owed_hours = set(part.owed_hours)
    attempt.written = dict(part.written)
    attempt.evicted_to = part.evicted_to
    attempt.evicted_usage.update(part.evicted_usage)
