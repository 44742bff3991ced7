"""Encodes the state of a job or node as typed MessagePack records.

The encoding only; when and where it is written is decided elsewhere.
"""

from __future__ import annotations

import msgspec

from schemas.durations import BEGINNING_MS
from schemas.events import JobEvent, NodeEvent
from streams.engine.kernels.store import BEGINNING_MINUTE
from streams.engine.pricing.kinds import PriceRef
from streams.engine.state.attempt import AttemptState, Winner
from streams.engine.state.heartbeats import Heartbeats
from streams.engine.state.hour_measures import UNKNOWN_TIME, MinuteUsage
from streams.engine.state.identities import Identities
from streams.engine.state.job import JobState
from streams.engine.state.laps import ProgressLaps
from streams.engine.state.measures import Measure
from streams.engine.state.node import NodeState
from streams.engine.state.pace import ProgressPace
from streams.engine.state.said import JobDimensions
from streams.engine.state.traffic import Basis, MinuteRows, Traffic
from streams.engine.timeline.intervals import Interval, Span
from streams.engine.timeline.lines import Line, Lines
from streams.engine.timeline.nodes import NodeSegment

#: (line, intervals) of each booked line.
BookedLines = list[tuple[Line, list[Interval]]]
#: (lines, rows of (line position, minute, quantity, lost quantity)).
BookedRows = tuple[list[Line], list[tuple[int, int, int, int]]]
_TrafficColumns = tuple[bytes, bytes, bytes, bytes, list[Basis]]


class AttemptBlob(msgspec.Struct, array_like=True):
    """An attempt's state."""

    number: int
    sampled: bool
    events: list[JobEvent]
    traffic: _TrafficColumns
    winners: list[tuple[int, Winner]]
    dirty_traffic: list[tuple[int, int]]
    dirty_metered: list[int]
    booked_lines: BookedLines
    booked_lost: list[Span]
    booked_metered: BookedRows
    booked_traffic: BookedRows
    owed_hours: list[int] = []
    written: list[tuple[tuple[str, ...], tuple[int, int]]] = []
    evicted_to: int = BEGINNING_MINUTE
    evicted_usage: list[tuple[int, MinuteUsage]] = []


class JobBlob(msgspec.Struct, array_like=True):
    """A job's state; the coverage of its samples is encoded separately."""

    id: str
    seen: bytes  # concatenated identities of 16 bytes
    first_ms: int
    last_ms: int
    booked_as_of_ms: int
    booked_dimensions: JobDimensions
    attempts: list[AttemptBlob]
    flags: int = 0
    heard_ms: int = BEGINNING_MS
    has_hours: bool = False  # whether the program that wrote it writes hours
    measures: list[Measure] = []
    pace: ProgressPace | None = None
    laps: ProgressLaps | None = None
    heartbeats: Heartbeats | None = None
    heard_source: str = ""


class NodeBlob(msgspec.Struct, array_like=True):
    """A node's state."""

    name: str
    dirty: bool
    seen: bytes
    events: list[NodeEvent]
    booked_lines: BookedLines
    booked_as_of_ms: int = -1
    booked_segments: list[NodeSegment] | None = None
    owed_hours: list[int] = []


#: Flags of a job in its shard: has open attempts, rows are due, only samples arrived.
OPEN, DIRTY, SAMPLED = 1, 2, 4


def dump_job(job: JobState, flags: int = 0) -> JobBlob:
    """Encode a job; derived values (timelines) are left out."""
    return JobBlob(
        id=job.id,
        seen=job.seen.dump(),
        first_ms=job.first_ms,
        last_ms=job.last_ms,
        booked_as_of_ms=job.booked_as_of_ms,
        booked_dimensions=job.booked_dimensions,
        attempts=[
            AttemptBlob(
                number=attempt.number,
                sampled=attempt.sampled,
                events=attempt.events,
                traffic=attempt.traffic.dump(),
                winners=list(attempt.winners.items()),
                dirty_traffic=attempt.dirty_traffic,
                dirty_metered=sorted(attempt.dirty_metered),
                booked_lines=list(attempt.booked_lines.items()),
                booked_lost=list(attempt.booked_lost),
                booked_metered=dump_rows(attempt.booked_metered),
                booked_traffic=dump_rows(attempt.booked_traffic),
                owed_hours=sorted(attempt.owed_hours),
                written=list(attempt.written.items()),
                evicted_to=attempt.evicted_to,
                evicted_usage=list(attempt.evicted_usage.items()),
            )
            for attempt in job.attempts.values()
        ],
        flags=flags,
        heard_ms=job.heard_ms,
        has_hours=True,
        measures=job.measures.dump(),
        pace=job.pace,
        laps=job.laps,
        heartbeats=job.heartbeats,
        heard_source=job.heard_source,
    )


def load_job(blob: JobBlob) -> JobState:
    """Decode a job: the inverse of `dump_job`; it counts as unsaved."""
    job = JobState(blob.id)
    job.seen = Identities(blob.seen)
    job.set_times(blob.first_ms, blob.last_ms, blob.heard_ms, blob.heard_source)
    job.booked_as_of_ms = blob.booked_as_of_ms
    job.booked_dimensions = blob.booked_dimensions
    job.booked_time = None if blob.has_hours else UNKNOWN_TIME
    job.measures.load(blob.measures)
    job.pace, job.laps, job.heartbeats = blob.pace, blob.laps, blob.heartbeats
    for part in blob.attempts:
        attempt: AttemptState = job.attempt(part.number)
        attempt.sampled = part.sampled
        attempt.load_events(part.events)
        for event in part.events:
            job.measures.add(event)  # an older program left them with the events
        attempt.traffic = Traffic.load(part.traffic)
        attempt.winners = dict(part.winners)
        attempt.add_fields(attempt.winners.values())
        attempt.dirty_traffic = part.dirty_traffic
        attempt.dirty_metered = set(part.dirty_metered)
        attempt.booked_lines = load_lines(part.booked_lines)
        attempt.booked_lost = tuple(part.booked_lost)
        attempt.booked_metered = load_rows(part.booked_metered)
        attempt.booked_traffic = load_rows(part.booked_traffic)
        attempt.owed_hours = set(part.owed_hours)
        attempt.written = dict(part.written)
        attempt.evicted_to, attempt.evicted_usage = part.evicted_to, dict(part.evicted_usage)
    job.note_usage()
    return job


def dump_node(node: NodeState) -> NodeBlob:
    """Encode a node."""
    return NodeBlob(
        node.name,
        node.dirty,
        node.seen.dump(),
        node.events,
        list(node.booked_lines.items()),
        node.booked_as_of_ms,
        None if node.booked_segments is None else list(node.booked_segments),
        sorted(node.owed_hours),
    )


def load_node(blob: NodeBlob) -> NodeState:
    """Decode a node: the inverse of `dump_node`."""
    node = NodeState(blob.name)
    node.events = blob.events
    node.seen = Identities(blob.seen)
    node.booked_lines = load_lines(blob.booked_lines)
    node.dirty = blob.dirty
    node.booked_as_of_ms = blob.booked_as_of_ms
    booked = blob.booked_segments
    node.booked_segments = None if booked is None else tuple(NodeSegment(*each) for each in booked)
    node.owed_hours = set(blob.owed_hours)
    # Of a program that wrote no hours all are due.
    node.dirty |= node.booked_segments is None
    return node


def load_lines(booked: BookedLines) -> Lines:
    """Decode booked lines."""
    return {load_line(line): intervals for line, intervals in booked}


def load_line(line: Line) -> Line:
    """Decode a line; the decoder leaves its price a plain tuple."""
    return line._replace(price=PriceRef(*line.price))


def dump_rows(rows: MinuteRows) -> BookedRows:
    """Encode booked rows by minute, each line named once."""
    lines: dict[Line, int] = {}
    flat = [
        (lines.setdefault(line, len(lines)), minute, quantity, lost)
        for minute, by_line in rows.items()
        for line, (quantity, lost) in by_line.items()
    ]
    return list(lines), flat


def load_rows(dumped: BookedRows) -> MinuteRows:
    """Decode booked rows: the inverse of `dump_rows`."""
    lines, flat = dumped
    rows: MinuteRows = {}
    for position, minute, quantity, lost in flat:
        rows.setdefault(minute, {})[lines[position]] = (quantity, lost)
    return rows
