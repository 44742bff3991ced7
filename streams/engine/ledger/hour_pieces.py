"""Cuts an hour of an attempt where its price fields change.

It reads the timeline, the first booked instant and which samples won their minutes, and adds nothing up.
"""

from __future__ import annotations

from itertools import pairwise

from schemas.durations import HOUR_MS, MINUTE_MS, NEVER_MS
from streams.engine.ledger.hour_singles import minute_fields
from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import MINUTES_PER_HOUR, Fields, HourPieces, Sums, shown_fields
from streams.engine.timeline.attempts import Timeline


def pieces_of(attempt: AttemptState, line: Timeline, hour: int, singles: Sums) -> HourPieces:
    """Return the pieces of an hour; `singles`: the sums of its single rows.

    The last hour's are cached while the timeline stays and no sample has won a minute: each may give its minute other
    price fields.
    """
    known = attempt.hour_pieces
    if (
        known is not None
        and known.line is line
        and known.hour == hour
        and known.sampled == attempt.sampled
        and not attempt.winners
    ):
        return known
    found = HourPieces(
        line, hour, attempt.sampled, _time(attempt, line, hour), _usage(attempt, line, hour, singles)
    )
    attempt.hour_pieces = found
    return found


def _time(attempt: AttemptState, line: Timeline, hour: int) -> list[tuple[int, int, Fields]]:
    """Cut an hour where the timeline's price fields change: (from_ms, until_ms, fields).

    What lies before the first billed, booked or queued instant is left out.
    """
    booked = attempt.booked_lines.values()  # may be of an earlier timeline, until the next accrual
    starts_ms = [
        *(segment.start_ms for segment in line.segments[:1]),
        *(start_ms for start_ms, _ in line.waits[:1]),
        *(intervals[0][0] for intervals in booked if intervals),
    ]
    first_ms = min(starts_ms, default=NEVER_MS)
    begin_ms, end_ms = max(hour * HOUR_MS, first_ms), (hour + 1) * HOUR_MS
    if begin_ms >= end_ms:
        return []
    ends_ms = [since_ms for since_ms, _ in line.fields[1:]] + [end_ms]
    return [
        (max(since_ms, begin_ms), min(until_ms, end_ms), shown_fields(fields))
        for (since_ms, fields), until_ms in zip(line.fields, ends_ms, strict=True)
        if since_ms < end_ms and until_ms > begin_ms
    ]


def _usage(attempt: AttemptState, line: Timeline, hour: int, singles: Sums) -> list[tuple[int, int, Fields]]:
    """Cut an hour in minutes of the same price fields: (from minute, until minute, fields)."""
    if not attempt.sampled:
        return []
    if line.fields[-1][0] <= hour * HOUR_MS and not attempt.winners:
        return [(*_minutes(hour), shown_fields(line.fields[-1][1]))]
    if attempt.winners and not attempt.booked_traffic and len(singles) == 1:
        # Its samples, which are all in those rows, have no others.
        return [(*_minutes(hour), next(iter(singles)))]
    pieces: list[tuple[int, int, Fields]] = []
    for first, end in pairwise(_cuts(attempt, line, *_minutes(hour))):
        fields = minute_fields(attempt, line, first)
        if pieces and pieces[-1][2] == fields:
            first = pieces.pop()[0]
        pieces.append((first, end, fields))
    return pieces


def _cuts(attempt: AttemptState, line: Timeline, lo: int, hi: int) -> list[int]:
    """Return the minutes of [lo, hi) at which the price fields may change, and hi."""
    cuts = {lo, hi, *(since_ms // MINUTE_MS for since_ms, _ in line.fields[1:])}
    if attempt.winners:
        won = [minute for minute in range(lo, hi) if minute in attempt.winners]
        cuts.update(won, (minute + 1 for minute in won))
    return sorted(minute for minute in cuts if lo <= minute <= hi)


def _minutes(hour: int) -> tuple[int, int]:
    """Return the minutes [lo, hi) of an hour."""
    return hour * MINUTES_PER_HOUR, (hour + 1) * MINUTES_PER_HOUR
