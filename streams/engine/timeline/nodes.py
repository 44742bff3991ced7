"""Builds the timeline of a node from `nodes` events: when it is billed, and at what price (docs/cost_model.md).

A pure function of the set of a node's events; it does not know who used the node.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final, NamedTuple

from schemas.events import NodeEvent, NodeType
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import usage_context
from streams.engine.pricing.kinds import COMPUTE, Kind, unpriced
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Line, Lines, price_pieces, without_compute_price
from streams.engine.timeline.values import NO_FIELDS, named_fields

#: A node without GPUs is paid as one instance.
ONE_INSTANCE_MILLI: Final = 1000
#: A price of any of these says what such a node costs: by instances, or by what its jobs have of it.
_OF_INSTANCE: Final = (Kind.INSTANCE_TIME, Kind.CPU_TIME, Kind.MEMORY_TIME)


class NodeSegment(NamedTuple):
    """Billed time [start_ms, end_ms) of a node with one GPU count, one set of price fields and one team.

    `goes_on`: no `terminated` event has ended its period of service yet.
    """

    start_ms: int
    end_ms: int
    gpu_milli: int
    fields: tuple[str | None, ...]
    goes_on: bool = False
    team: str = ""  # whose idle time it is; no price matches it
    is_starting: bool = False  # between `provisioned` and the `ready` that followed

    @property
    def dimensions(self) -> tuple[str, ...]:
        """The price fields and the team, empty where not known."""
        return _dimensions(self.fields, self.team)

    def billed_until_ms(self, as_of_ms: int) -> int:
        """Return when its billed time ends: at the accrual instant while the node is in service."""
        return min(self.end_ms, as_of_ms) if self.goes_on else self.end_ms

    @property
    def pays_for(self) -> tuple[str, Kind, int]:
        """Component, kind of quantity and quantity per ms: its GPUs, or where it has none itself as an instance."""
        if self.gpu_milli:
            return "gpu", Kind.GPU_TIME, self.gpu_milli
        return COMPUTE, Kind.INSTANCE_TIME, ONE_INSTANCE_MILLI

    @property
    def priced_by(self) -> tuple[tuple[str, Kind], ...]:
        """The components and kinds whose prices decide what its rows are: of an instance also whether it is unpriced."""
        component, kind, _ = self.pays_for
        return (
            tuple((COMPUTE, each) for each in _OF_INSTANCE) if component == COMPUTE else ((component, kind),)
        )


@lru_cache(maxsize=16384)
def _dimensions(fields: tuple[str | None, ...], team: str) -> tuple[str, ...]:
    return (*(value or "" for value in fields), team)


def node_segments(events: Iterable[NodeEvent]) -> tuple[NodeSegment, ...]:
    """Billed time from `provisioned` (or the first event) to `terminated`, for each period of service."""
    ordered = sorted(events, key=lambda e: (e.time_ms, int(e.type), e.source, e.id))
    segments: list[NodeSegment] = []
    service_begin = 0  # index in `segments` of the current period of service
    gpu_milli, fields, team = 0, NO_FIELDS, ""
    terminated = False
    arriving = (
        0  # how many of the last segments began with `provisioned`, and nothing else has happened since
    )
    for position, event in enumerate(ordered):
        if terminated and event.type != NodeType.provisioned:
            continue
        if terminated:
            service_begin = len(segments)
        if event.type == NodeType.ready and arriving:
            segments[-arriving:] = [segment._replace(is_starting=True) for segment in segments[-arriving:]]
        if event.type != NodeType.provisioned:
            arriving = 0
        terminated = event.type == NodeType.terminated
        gpu_milli = gpu_milli if event.gpu_milli is None else event.gpu_milli
        fields = named_fields(fields, event.fields)
        team = team if event.team is None else event.team
        end_ms = ordered[position + 1].time_ms if position + 1 < len(ordered) else OPEN_MS
        if not terminated and event.time_ms < end_ms:
            segments.append(NodeSegment(event.time_ms, end_ms, gpu_milli, fields, team=team))
            arriving += event.type == NodeType.provisioned and (
                arriving > 0 or len(segments) - 1 == service_begin
            )
    if not terminated:
        segments[service_begin:] = [segment._replace(goes_on=True) for segment in segments[service_begin:]]
    return tuple(segments)


def cut_segments(segments: Iterable[NodeSegment], as_of_ms: int) -> list[NodeSegment]:
    """The billed time of segments."""
    cut = (segment._replace(end_ms=segment.billed_until_ms(as_of_ms)) for segment in segments)
    return [segment for segment in cut if segment.start_ms < segment.end_ms]


def starting_intervals(segments: Iterable[NodeSegment], as_of_ms: int) -> list[Interval]:
    """The time of segments in which the node was on its way, as intervals of rate 1."""
    return paid_intervals([segment for segment in segments if segment.is_starting], as_of_ms)


def paid_intervals(segments: Iterable[NodeSegment], as_of_ms: int) -> list[Interval]:
    """The billed time of segments as intervals of rate 1."""
    cut = ((segment.start_ms, segment.billed_until_ms(as_of_ms), 1, 0) for segment in segments)
    return [interval for interval in cut if interval[0] < interval[1]]


def node_lines(segments: Iterable[NodeSegment], as_of_ms: int, book: PriceBook) -> Lines:
    """The lines of a node, open time up to the accrual instant.

    Its GPU-time by the `gpu` SKUs; of a node without GPUs its time as one instance, by the `compute` SKUs. Where none of
    these applies, not even to its CPUs or memory, it is shown as unpriced.
    """
    lines: Lines = {}
    for segment in cut_segments(segments, as_of_ms):
        component, kind, rate = segment.pays_for
        context = usage_context(segment.fields, None, None)
        steps = book.steps(context, component, kind, segment.start_ms, segment.end_ms)
        for from_ms, until_ms, price in price_pieces(
            steps, segment.start_ms, segment.end_ms, component, kind
        ):
            interval: Interval = (from_ms, until_ms, rate, 0)
            lines.setdefault(Line("", "", price), []).append(interval)
        if component == COMPUTE:
            spans = without_compute_price(_OF_INSTANCE, context, book, segment.start_ms, segment.end_ms)
            for from_ms, until_ms in spans:
                line = Line("", "", unpriced(COMPUTE, kind))
                lines.setdefault(line, []).append((from_ms, until_ms, rate, 0))
    return lines
