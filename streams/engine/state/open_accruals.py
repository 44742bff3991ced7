"""Ledger lines of open attempts, extended as time passes without deriving them again.

It is valid until a known instant, for one timeline and one payer. A caller that finds a changed price drops it.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import NEVER_MS
from streams.engine.pricing.context import Payer
from streams.engine.state.unsaved import UnsavedParts
from streams.engine.timeline.intervals import Interval
from streams.engine.timeline.lines import Line, Lines

_UNTRACKED_MS: Final = -NEVER_MS  # before every instant: what has ended is booked up to any


class OpenAccruals:
    """What is booked of an attempt or a node, up to `as_of_ms`: until `until_ms` only the open lines change.

    Open lines only become longer; ended lines never change.
    """

    __slots__ = ("_by_end", "as_of_ms", "growing", "payer", "source", "until_ms")

    def __init__(self, source: object, payer: Payer) -> None:
        self.source = source  # a timeline or segments: another object once an event changes them
        self.payer = payer
        self.as_of_ms, self.until_ms = _UNTRACKED_MS, NEVER_MS
        self.growing: list[tuple[Line, list[Interval]]] = []
        self._by_end = False  # whether the open lines are exactly those that end at `as_of_ms`

    def track(self, whole: Lines, booked: Lines, as_of_ms: int) -> None:
        """Record the open lines: `booked` is `whole`, not cut by the accrual instant, up to `as_of_ms`."""
        self.as_of_ms = as_of_ms
        starts = (start_ms for intervals in whole.values() for start_ms, _, _, _ in intervals)
        ends = (end_ms for intervals in whole.values() for _, end_ms, _, _ in intervals)
        next_start_ms = min((start_ms for start_ms in starts if start_ms >= as_of_ms), default=NEVER_MS)
        self.until_ms = min((end_ms for end_ms in ends if end_ms > as_of_ms), default=NEVER_MS)
        self.until_ms = min(self.until_ms, next_start_ms)
        self.growing = [
            (line, booked[line])
            for line, intervals in whole.items()
            if any(start_ms < as_of_ms < end_ms for start_ms, end_ms, _, _ in intervals)
        ]
        ending = sum(intervals[-1][1] == as_of_ms for intervals in booked.values())
        self._by_end = ending == len(self.growing) > 0

    def covers(self, source: object, payer: Payer, as_of_ms: int) -> bool:
        """Whether longer open lines alone book everything up to an instant."""
        return self.source is source and self.as_of_ms <= as_of_ms <= self.until_ms and self.payer == payer

    def advance(self, as_of_ms: int, unsaved: UnsavedParts | None) -> None:
        """Record that the open lines, if there are any, are booked up to an instant; `unsaved` is of the attempt, None for a node."""
        if self.as_of_ms == _UNTRACKED_MS:
            return  # it would seem to grow from here to the next instant, and its hours be written again
        if unsaved is not None and not (self._by_end and unsaved.add_accrual(self.as_of_ms, as_of_ms)):
            for line, intervals in self.growing:
                unsaved.lines.setdefault(line, len(intervals) - 1)
        self.as_of_ms = as_of_ms


def cut_lines(lines: Lines, at_ms: int) -> Lines:
    """The lines up to an instant."""
    cut: Lines = {}
    for line, intervals in lines.items():
        before = [
            (start_ms, min(end_ms, at_ms), rate, flag)
            for start_ms, end_ms, rate, flag in intervals
            if start_ms < at_ms
        ]
        if before:
            cut[line] = before
    return cut
