"""The state of a node in memory: its events and what has been booked.

Nodes have rows of their own beside the jobs'; the tables join them with the jobs that used them.
"""

from __future__ import annotations

from dataclasses import dataclass

from schemas.events import NodeEvent
from streams.engine.state.identities import Identities
from streams.engine.state.open_accruals import OpenAccruals
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Lines
from streams.engine.timeline.nodes import NodeSegment, node_segments


@dataclass(slots=True)
class OpenNodeHour:
    """The row of the hour in which a node is in service: as only time goes on, the last interval of `paid` grows."""

    hour: int
    segments: tuple[NodeSegment, ...]  # compared by identity
    as_of_ms: int
    dimensions: tuple[str, ...]
    paid: list[Interval]


class NodeState:
    """One node; `seen` holds the identity hashes of its events."""

    __slots__ = (
        "_asks",
        "_segments",
        "booked_as_of_ms",
        "booked_lines",
        "booked_segments",
        "dirty",
        "events",
        "name",
        "open_accruals",
        "open_hour",
        "owed_hours",
        "seen",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.events: list[NodeEvent] = []
        self.seen = Identities()
        self.booked_lines: Lines = {}
        # The time of service whose hours are booked; None: an older snapshot does not say.
        self.booked_segments: tuple[NodeSegment, ...] | None = ()
        self.owed_hours: set[int] = set()  # to be written again
        # Cached for the next accrual.
        self.open_accruals: OpenAccruals | None = None
        self.open_hour: OpenNodeHour | None = None
        self.dirty = True
        self.booked_as_of_ms = -1
        self._segments: tuple[NodeSegment, ...] | None = None
        self._asks: tuple[NodeSegment, ...] | None = None  # its segments as of the last check

    def add_event(self, event: NodeEvent) -> None:
        """Add a node event (not a duplicate)."""
        self.events.append(event)
        self.dirty = True
        self._segments = None

    def reprice(self) -> None:
        """Mark the node to be derived again: a price of its time changed."""
        self.dirty = True
        self.open_accruals = None

    def segments(self) -> tuple[NodeSegment, ...]:
        """The node's billed time, computed once per change."""
        if self._segments is None:
            self._segments = node_segments(self.events)
        return self._segments

    def may_price_lookups_differ(self) -> bool:
        """Whether its price lookups may differ from the last call."""
        before, self._asks = self._asks, self.segments()
        return before is not self._asks

    @property
    def is_open(self) -> bool:
        """Whether it accrues with time alone."""
        segments = self.segments()
        return bool(segments) and segments[-1].goes_on
