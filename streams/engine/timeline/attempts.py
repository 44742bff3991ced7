"""Builds the timeline of each attempt from the set of a job's lifecycle events (docs/cost_model.md).

A pure function of the set: arrival order, duplicates and batches have no effect; no prices here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS
from schemas.events import JobEvent, JobType
from streams.engine.timeline.intervals import Covered, Interval, Span, exclusive_ms, union
from streams.engine.timeline.states import ENDINGS, STARTS, held_after, state_after
from streams.engine.timeline.values import Values, values_after

#: An attempt is billed for 400 days at most.
PAID_AT_MOST_MS: Final = 400 * 86_400_000
#: An attempt in one of these states broke off: what it did since its last checkpoint is lost.
LOSING: Final = ("preempted", "failed", "superseded")
#: So many intervals between checkpoints say what is usual.
SAVES: Final = 3
#: The end of an open segment.
OPEN_MS: Final = 2**62


#: (from_ms, the price fields from then on).
FieldStep = tuple[int, tuple[str | None, ...]]


class Segment(NamedTuple):
    """Billed time [start_ms, end_ms) in which nothing changes; end_ms is OPEN_MS while it is open."""

    start_ms: int
    end_ms: int
    phase: str
    values: Values


class Timeline(NamedTuple):
    """The timeline of one attempt. `ended_ms` is None while it is open; `lost` and `segments` are not cut.

    `fields`: (from_ms, price fields) in order of time, the first from BEGINNING_MS. `waits`: time in the queue that has
    ended.
    """

    attempt: int
    state: str
    reason: str
    metered: bool
    started_ms: int | None
    ended_ms: int | None
    segments: tuple[Segment, ...]
    lost: tuple[Span, ...]
    values: Values
    after_end: int
    fields: tuple[FieldStep, ...]
    waits: tuple[Span, ...]
    checkpoint_ms: int | None = None  # the newest one before its end
    saves_ms: tuple[int, ...] = ()  # how long it ran before each of its last `SAVES` checkpoints, in order

    def ended_by(self, at_ms: int) -> bool:
        """Whether it has ended at or before an instant."""
        return self.ended_ms is not None and self.ended_ms <= at_ms

    def paid(self, as_of_ms: int) -> list[Segment]:
        """The segments cut at the accrual instant (unless the attempt ended) and at 400 days."""
        limit_ms = self._paid_until_ms(as_of_ms)
        return [
            segment
            if segment.end_ms <= limit_ms
            else Segment(segment.start_ms, limit_ms, segment.phase, segment.values)
            for segment in self.segments
            if segment.start_ms < limit_ms
        ]

    def paid_ms(self, as_of_ms: int) -> int:
        """The total length of those segments."""
        limit_ms = self._paid_until_ms(as_of_ms)
        return sum(
            min(segment.end_ms, limit_ms) - segment.start_ms
            for segment in self.segments
            if segment.start_ms < limit_ms
        )

    def _paid_until_ms(self, as_of_ms: int) -> int:
        if not self.segments:
            return 0
        limit_ms = self.segments[0].start_ms + PAID_AT_MOST_MS
        return limit_ms if self.ended_ms is not None else min(limit_ms, as_of_ms)


def event_order(event: JobEvent) -> tuple[int, int, str, str]:
    """The sort key of an attempt's events: time, then type in the order of docs/events.md, source, id."""
    return (event.time_ms, int(event.type), event.source, event.id)


class Draft(NamedTuple):
    """An attempt before later attempts are taken into account."""

    events: list[JobEvent]
    own_end: int | None  # index of the event that ends it
    first_start_ms: int | None
    metered: bool


def timelines(events_by_attempt: Mapping[int, Iterable[JobEvent]]) -> dict[int, Timeline]:
    """The timeline of every attempt that has events, by attempt number ascending."""
    drafts = {number: draft_of(events_by_attempt[number]) for number in sorted(events_by_attempt)}
    superseded_ms = _supersessions(drafts)
    result: dict[int, Timeline] = {}
    carried = Values()
    for number, draft in drafts.items():
        timeline = timeline_of(number, draft, superseded_ms[number], carried, is_retry=bool(result))
        result[number] = timeline
        carried = timeline.values
    return result


def draft_of(events: Iterable[JobEvent]) -> Draft:
    """What an attempt's own events say."""
    ordered = sorted(events, key=event_order)
    own_end: int | None = None
    first_start_ms: int | None = None  # events are in order of time; after the end none counts
    metered = True
    for position, event in enumerate(ordered):
        if event.type in STARTS:
            metered = False
            if own_end is None and first_start_ms is None:
                first_start_ms = event.time_ms
        elif own_end is None and event.type in ENDINGS:
            own_end = position
    return Draft(ordered, own_end, first_start_ms, metered)


def _supersessions(drafts: Mapping[int, Draft]) -> dict[int, int | None]:
    """Return when a later attempt's first start ends each attempt without an end of its own."""
    earliest_ms: int | None = None
    found: dict[int, int | None] = {}
    for number in sorted(drafts, reverse=True):
        draft = drafts[number]
        found[number] = earliest_ms if draft.own_end is None else None
        if draft.first_start_ms is not None:
            earliest_ms = (
                draft.first_start_ms if earliest_ms is None else min(earliest_ms, draft.first_start_ms)
            )
    return found


def timeline_of(
    number: int, draft: Draft, superseded_ms: int | None, values: Values, *, is_retry: bool
) -> Timeline:
    """The timeline of an attempt that a later one ends at `superseded_ms`, and that begins with `values`."""
    events = draft.events
    if draft.own_end is not None:
        effective = events[: draft.own_end + 1]
        ended_ms: int | None = events[draft.own_end].time_ms
    elif superseded_ms is not None:
        effective = [event for event in events if event.time_ms <= superseded_ms]
        ended_ms = superseded_ms
    else:
        effective, ended_ms = events, None

    state, held, reason = "", False, ""
    started_ms: int | None = None
    saved_ms: list[int] = []
    segments: list[Segment] = []
    fields: list[FieldStep] = [(BEGINNING_MS, values.fields)]
    waits: list[Span] = []
    waits_since_ms: int | None = None
    for position, event in enumerate(effective):
        values = values_after(values, event)
        if values.fields is not fields[-1][1]:
            _step(fields, event.time_ms, values.fields)
        state, held = state_after(event, state), held_after(event, held)
        if event.type == JobType.queued and waits_since_ms is None:
            waits_since_ms = event.time_ms
        elif waits_since_ms is not None and state != "queued":
            waits.append((waits_since_ms, event.time_ms))
            waits_since_ms = None
        reason = event.reason or reason
        if event.type in STARTS and started_ms is None:
            started_ms = event.time_ms
        if event.type == JobType.checkpointed:
            saved_ms.append(event.time_ms)
        if held and not draft.metered:
            is_last = position + 1 == len(effective)
            until_ms = (
                (OPEN_MS if ended_ms is None else ended_ms) if is_last else effective[position + 1].time_ms
            )
            _append(segments, Segment(event.time_ms, until_ms, state, values))
    if draft.own_end is None and superseded_ms is not None:
        state, reason = "superseded", reason or "unknown"
        if waits_since_ms is not None:
            waits.append((waits_since_ms, superseded_ms))
    checkpoint_ms = saved_ms[-1] if saved_ms else None
    return Timeline(
        attempt=number,
        state=state or "queued",
        reason=reason,
        metered=draft.metered,
        started_ms=started_ms,
        ended_ms=ended_ms,
        segments=tuple(segments),
        lost=() if draft.metered else _lost(state, segments, started_ms, checkpoint_ms, ended_ms, is_retry),
        values=values,
        after_end=len(events) - len(effective),
        fields=tuple(fields),
        waits=tuple((start, min(end, start + PAID_AT_MOST_MS)) for start, end in waits if start < end),
        checkpoint_ms=checkpoint_ms,
        saves_ms=() if draft.metered else _saves(segments, started_ms, saved_ms),
    )


def _saves(segments: Sequence[Segment], started_ms: int | None, saved_ms: Sequence[int]) -> tuple[int, ...]:
    """How long it ran between its last checkpoints, the first of which is from its start on."""
    edges_ms = sorted([*saved_ms[-SAVES - 1 :], *([] if started_ms is None else [started_ms])])
    ran_ms = [
        sum(
            max(0, min(segment.end_ms, to_ms) - max(segment.start_ms, from_ms))
            for segment in segments
            if segment.phase == "running"
        )
        for from_ms, to_ms in pairwise(edges_ms)
    ]
    return tuple(ran_ms[-SAVES:]) if saved_ms else ()


def _step(steps: list[FieldStep], time_ms: int, fields: tuple[str | None, ...]) -> None:
    """Add the price fields from an instant on, unless nothing changes."""
    if steps[-1][0] == time_ms:
        steps.pop()
    if steps[-1][1] != fields:
        steps.append((time_ms, fields))


def _append(segments: list[Segment], segment: Segment) -> None:
    """Add a segment; one that changes nothing (a heartbeat) extends the last."""
    if segment.end_ms <= segment.start_ms:
        return
    if segments:
        last = segments[-1]
        if last.end_ms == segment.start_ms and last[2:] == segment[2:]:
            segments[-1] = last._replace(end_ms=segment.end_ms)
            return
    segments.append(segment)


def _lost(
    state: str,
    segments: list[Segment],
    started_ms: int | None,
    checkpoint_ms: int | None,
    ended_ms: int | None,
    is_retry: bool,
) -> tuple[Span, ...]:
    """Lost work: since the last checkpoint of an attempt that broke off, and the start-up of every retry."""
    spans: list[Span] = []
    if state in LOSING and ended_ms is not None:
        since_ms = checkpoint_ms if checkpoint_ms is not None else started_ms
        if since_ms is not None:
            spans.append((since_ms, ended_ms))
    if is_retry and segments:
        # Up to 400 days like all billed time, but not to the accrual instant: that cuts what is billed, not the phase.
        limit_ms = segments[0].start_ms + PAID_AT_MOST_MS
        spans.extend((s.start_ms, min(s.end_ms, limit_ms)) for s in segments if s.phase == "starting")
    return union(spans)


def wall_clock_ms(lines: Mapping[int, Timeline], as_of_ms: int) -> dict[int, int]:
    """Per attempt the ms in which it is billed and no lower-numbered attempt is: their sum is the job's."""
    if len(lines) == 1:  # the usual case: nothing overlaps
        return {number: line.paid_ms(as_of_ms) for number, line in lines.items()}
    return exclusive_ms(
        {number: [(s.start_ms, s.end_ms) for s in line.paid(as_of_ms)] for number, line in lines.items()}
    )


def billed_pieces(lines: Mapping[int, Timeline], as_of_ms: int) -> dict[int, list[Interval]]:
    """Per attempt the time behind `wall_clock_ms` as (start_ms, end_ms, 1, 1 if starting), in order."""
    if len(lines) == 1:  # the usual case: nothing overlaps
        return {
            number: [
                (start_ms, end_ms, 1, int(phase == "starting"))
                for start_ms, end_ms, phase, _ in line.paid(as_of_ms)
            ]
            for number, line in lines.items()
        }
    pieces: dict[int, list[Interval]] = {}
    covered = Covered()
    for number, line in lines.items():
        paid = line.paid(as_of_ms)
        pieces[number] = [
            (start_ms, end_ms, 1, int(segment.phase == "starting"))
            for segment in paid
            for start_ms, end_ms in covered.rest_of((segment.start_ms, segment.end_ms))
        ]
        covered.add((segment.start_ms, segment.end_ms) for segment in paid)
    return pieces
