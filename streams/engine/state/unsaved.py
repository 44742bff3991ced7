"""Tracks which parts of an attempt are not in a snapshot yet, so that the next one includes only these.

Marks only; their encoding is decided elsewhere.
"""

from __future__ import annotations

from typing import Final

from streams.engine.timeline.lines import Line, Lines

#: The line is no longer booked.
GONE: Final = -1
NO_HOURS: Final[frozenset[int]] = frozenset()


class UnsavedParts:
    """Changes since the last snapshot: counts for append-only parts, positions for the others."""

    __slots__ = (
        "amounts",
        "events",
        "evicted_minutes",
        "lines",
        "marks",
        "metered_minutes",
        "owed_hours",
        "paid_ms",
        "sampled",
        "traffic_minutes",
    )

    def __init__(self) -> None:
        self.events = 0  # number of saved events
        self.amounts = 0
        self.metered_minutes: set[int] = set()  # whose winner or booked rows may have changed
        self.traffic_minutes: set[int] = set()
        self.evicted_minutes: set[int] = set()
        self.lines: dict[Line, int] = {}  # line -> its first interval that changed, or GONE
        self.owed_hours: frozenset[int] = NO_HOURS  # as they were saved, and so is the next
        self.sampled = False
        self.marks: object = None  # the other parts, as they were saved
        # (from, until): all booked lines that ended at `from` now end at `until`, in addition to `lines`.
        self.paid_ms: tuple[int, int] | None = None

    def add_accrual(self, from_ms: int, until_ms: int) -> bool:
        """Record that open lines were extended by moving their end; return False if the snapshot must list each line."""
        if self.lines or (self.paid_ms is not None and self.paid_ms[1] != from_ms):
            return False
        self.paid_ms = (from_ms if self.paid_ms is None else self.paid_ms[0], until_ms)
        return True

    def spell_out(self, booked: Lines) -> None:
        """Convert `paid_ms` to one entry per booked line."""
        if self.paid_ms is not None:
            for line, intervals in booked.items():
                if intervals[-1][1] == self.paid_ms[1]:
                    self.lines.setdefault(line, len(intervals) - 1)
            self.paid_ms = None

    def add_lines(self, old: Lines, new: Lines) -> None:
        """Record that booked lines changed from `old` to `new`."""
        self.spell_out(old)
        for line, after in new.items():
            before = old.get(line)
            if before is None:
                self.lines[line] = 0
            elif before != after:
                common = _common(before, after)
                known = self.lines.get(line, common)
                self.lines[line] = min(known, common) if known != GONE else 0
        for line in old:
            if line not in new:
                self.lines[line] = GONE

    def clear(
        self, events: int, amounts: int, sampled: bool, owed_hours: frozenset[int], marks: object
    ) -> None:
        """Record that all is saved: these counts of events and amounts, and the other parts."""
        self.events, self.amounts, self.marks, self.paid_ms = events, amounts, marks, None
        self.sampled, self.owed_hours = sampled, owed_hours
        self.metered_minutes.clear()
        self.traffic_minutes.clear()
        self.evicted_minutes.clear()
        self.lines.clear()


def _common(before: list[tuple[int, int, int, int]], after: list[tuple[int, int, int, int]]) -> int:
    """How many leading intervals are equal."""
    least = min(len(before), len(after))
    if least and before[: least - 1] == after[: least - 1]:  # the usual case: only the last differs
        return least - 1 + (before[least - 1] == after[least - 1])
    return next((at for at in range(least) if before[at] != after[at]), least)
