"""Computes the phases of one job's attempts from the events last stored by its shard.

An open phase ends at the caller's instant.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.events import JobEvent, JobType
from streams.engine.snapshot.job_blobs import JobBlob
from streams.engine.timeline.attempts import event_order, timelines
from streams.engine.timeline.states import STARTS


class JobPhase(NamedTuple):
    """An attempt was in one phase from `start_ms` to `end_ms`."""

    attempt: int
    phase: str
    start_ms: int
    end_ms: int


def phases(job: JobBlob, as_of_ms: int) -> list[JobPhase]:
    """Waiting and billed time of each attempt, in order; an open phase ends at `as_of_ms`."""
    found: list[JobPhase] = []
    events = {attempt.number: attempt.events for attempt in job.attempts if attempt.events}
    for number, line in timelines(events).items():
        first = line.segments[0].start_ms if line.segments else (line.ended_ms or as_of_ms)
        found += _queued(number, events[number], first)
        for segment in line.paid(as_of_ms):
            last = found[-1] if found else None
            if last and last[:2] == (number, segment.phase) and last.end_ms == segment.start_ms:
                found[-1] = last._replace(end_ms=segment.end_ms)
            else:
                found.append(JobPhase(number, segment.phase, segment.start_ms, segment.end_ms))
    return found


def _queued(attempt: int, events: list[JobEvent], until_ms: int) -> list[JobPhase]:
    """The time from the first `queued` to the first billed instant; a `queued` after a start is no waiting time."""
    for event in sorted(events, key=event_order):
        if event.type in STARTS:
            break
        if event.type is JobType.queued and event.time_ms < until_ms:
            return [JobPhase(attempt, "queued", event.time_ms, until_ms)]
    return []
