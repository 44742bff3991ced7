"""Finds which hours of open attempts can be handed over again, as only time went on.

It compares what the rows of an hour are made of, and adds nothing up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from streams.engine.state.attempt import AttemptState
from streams.engine.state.hour_measures import MINUTES_PER_HOUR, Fields, HourPieces, OpenHour
from streams.engine.timeline.attempts import OPEN_MS, PAID_AT_MOST_MS, Timeline
from streams.engine.timeline.intervals import Interval


def open_hour(
    attempt: AttemptState,
    timelines: Mapping[int, Timeline],
    pieces: HourPieces,
    rows: Sequence[Fields],
    billed: list[Interval],
    waits: list[Interval],
    as_of_ms: int,
) -> OpenHour | None:
    """The rows of an hour that was handed over, to be handed over again; None if more than their ends may change.

    `rows`: the price fields of each, in order. `billed` is the attempt's to keep.
    """
    last = timelines[attempt.number].segments[-1:]
    if not last or last[0].end_ms != OPEN_MS or not billed or billed[-1][1] != as_of_ms:
        return None  # what is billed next is no longer interval
    if attempt.winners or attempt.booked_metered or pieces.hour * MINUTES_PER_HOUR < attempt.evicted_to:
        return None  # samples make rows of their own
    for number, line in timelines.items():
        if number < attempt.number and line.segments and line.segments[-1].end_ms > as_of_ms:
            return None  # time of two attempts is billed to the first
    written = attempt.written
    if not all(
        fields in written and written[fields][0] <= pieces.hour <= written[fields][1] for fields in rows
    ):
        return None  # a row is written only if it is not empty
    return OpenHour(
        hour=pieces.hour,
        timelines=timelines,
        lines=attempt.booked_lines,
        as_of_ms=as_of_ms,
        until_ms=timelines[attempt.number].segments[0].start_ms + PAID_AT_MOST_MS,
        sampled=attempt.sampled,
        written=dict(written),
        places={fields: place for place, fields in enumerate(rows)},
        time=[(from_ms, until_ms, rows.index(fields)) for from_ms, until_ms, fields in pieces.time],
        usage=[(lo, hi, rows.index(fields)) for lo, hi, fields in pieces.usage],
        billed=billed,
        waits=waits,
    )


def goes_on(
    known: OpenHour,
    attempt: AttemptState,
    timelines: Mapping[int, Timeline],
    marked: set[int],
    as_of_ms: int,
) -> bool:
    """Whether the marked hours are the known one, whose rows can only have become longer."""
    return (
        known.timelines is timelines
        and known.lines is attempt.booked_lines
        and known.as_of_ms <= as_of_ms <= known.until_ms
        and len(marked) == 1
        and known.hour in marked
        and known.sampled == attempt.sampled
        and known.written == attempt.written
        and not attempt.winners
        and not attempt.booked_metered
        and attempt.evicted_to <= known.hour * MINUTES_PER_HOUR
    )
