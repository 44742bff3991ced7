"""Tracks what of an attempt is not in a snapshot yet, so that the next one carries only that.

Marks only; how they are written down is decided elsewhere.
"""

from __future__ import annotations

from typing import Final

from streams.engine.timeline.lines import Line, Lines

#: The line is booked no more.
GONE: Final = -1


class UnsavedParts:
    """Since the last snapshot: counts of what was saved of what only grows, and places of what changes."""

    __slots__ = ("amounts", "events", "lines", "marks", "metered_minutes", "paid_ms", "traffic_minutes")

    def __init__(self) -> None:
        self.events = 0  # so many are saved, and so on
        self.amounts = 0
        self.metered_minutes: set[int] = set()  # whose winner or booked rows may have changed
        self.traffic_minutes: set[int] = set()
        self.lines: dict[Line, int] = {}  # line -> its first interval that changed, or GONE
        self.marks: object = None  # the rest, as it was saved
        # All booked lines that ended at the first of these instants end at the second now, beside what `lines` says.
        self.paid_ms: tuple[int, int] | None = None

    def add_accrual(self, from_ms: int, until_ms: int) -> bool:
        """Note that open lines were extended by moving their end; False if the snapshot must carry them line by line."""
        if self.lines or (self.paid_ms is not None and self.paid_ms[1] != from_ms):
            return False
        self.paid_ms = (from_ms if self.paid_ms is None else self.paid_ms[0], until_ms)
        return True

    def spell_out(self, booked: Lines) -> None:
        """Say of each of the booked lines what `paid_ms` says of all."""
        if self.paid_ms is not None:
            for line, intervals in booked.items():
                if intervals[-1][1] == self.paid_ms[1]:
                    self.lines.setdefault(line, len(intervals) - 1)
            self.paid_ms = None

    def add_lines(self, old: Lines, new: Lines) -> None:
        """Booked lines are other ones now."""
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

    def clear(self, events: int, amounts: int, marks: object) -> None:
        """All is saved: so many events and amounts, and these marks."""
        self.events, self.amounts, self.marks, self.paid_ms = events, amounts, marks, None
        self.metered_minutes.clear()
        self.traffic_minutes.clear()
        self.lines.clear()


def _common(before: list[tuple[int, int, int, int]], after: list[tuple[int, int, int, int]]) -> int:
    """How many intervals both begin with."""
    least = min(len(before), len(after))
    if least and before[: least - 1] == after[: least - 1]:  # as ever, but for the last
        return least - 1 + (before[least - 1] == after[least - 1])
    return next((at for at in range(least) if before[at] != after[at]), least)
