"""The state of a node in memory: its events and what has been booked.

Nodes have rows of their own beside the jobs'; the tables join them with the jobs that used them.
"""

from __future__ import annotations

from schemas.events import NodeEvent
from streams.engine.state.identities import Identities
from streams.engine.state.open_accruals import OpenAccruals
from streams.engine.timeline.lines import Lines
from streams.engine.timeline.nodes import NodeSegment, node_segments


class NodeState:
    """One node; `seen` holds the identity hashes of its events."""

    __slots__ = (
        "_segments",
        "booked_as_of_ms",
        "booked_lines",
        "booked_segments",
        "dirty",
        "events",
        "name",
        "open_accruals",
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
        self.open_accruals: OpenAccruals | None = None  # cached for the next accrual
        self.dirty = True
        self.booked_as_of_ms = -1
        self._segments: tuple[NodeSegment, ...] | None = None

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
        """Return the node's billed time, computed once per change."""
        if self._segments is None:
            self._segments = node_segments(self.events)
        return self._segments

    @property
    def is_open(self) -> bool:
        """Return whether it accrues with time alone."""
        segments = self.segments()
        return bool(segments) and segments[-1].goes_on
