"""Half-open time spans [start, end) in ms: union, intersection and difference.

Plain integers; knows nothing of jobs.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping
from operator import itemgetter

Span = tuple[int, int]
#: (start_ms, end_ms, rate per ms, 1 if lost): disjoint, ascending.
Interval = tuple[int, int, int, int]


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Disjoint, ascending spans that cover the same instants; empty ones are dropped."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def length_ms(spans: Iterable[Span]) -> int:
    """The total length of the (disjoint) spans."""
    return sum(end - start for start, end in spans)


def exclusive_ms(spans_by_number: Mapping[int, Iterable[Span]]) -> dict[int, int]:
    """Return for each number the length of its spans that no smaller number covers."""
    covered = Covered()
    found: dict[int, int] = {}
    for number in sorted(spans_by_number):
        spans = union(spans_by_number[number])
        found[number] = sum(length_ms(covered.rest_of(span)) for span in spans)
        covered.add(spans)
    return found


class Covered:
    """Time that is covered so far; spans that come in order of time cost nothing but themselves."""

    __slots__ = ("_ends_ms", "_spans")

    def __init__(self) -> None:
        self._spans: list[Span] = []  # disjoint, ascending
        self._ends_ms: list[int] = []

    def rest_of(self, span: Span) -> list[Span]:
        """The parts of a span that are not covered."""
        first = bisect_right(self._ends_ms, span[0])
        if first == len(self._spans):
            return [span] if span[0] < span[1] else []
        last = bisect_left(self._spans, span[1], first, key=itemgetter(0))
        return uncovered(span, tuple(self._spans[first:last]))

    def add(self, spans: Iterable[Span]) -> None:
        """Cover these spans, too."""
        for span in spans:
            if span[0] >= span[1]:
                continue
            if self._spans and self._spans[-1][0] <= span[0] <= self._ends_ms[-1]:
                self._ends_ms[-1] = max(self._ends_ms[-1], span[1])
                self._spans[-1] = (self._spans[-1][0], self._ends_ms[-1])
            elif self._spans and span[0] < self._spans[-1][0]:
                self._spans = list(union((*self._spans, span)))
                self._ends_ms = [end_ms for _, end_ms in self._spans]
            else:
                self._spans.append(span)
                self._ends_ms.append(span[1])


def split_at(span: Span, flagged: tuple[Span, ...]) -> list[tuple[int, int, int]]:
    """Split `span` into pieces (start, end, flag): flag 1 inside one of the disjoint ascending `flagged` spans."""
    start, end = span
    pieces: list[tuple[int, int, int]] = []
    for flag_start, flag_end in flagged:
        if flag_end <= start or flag_start >= end:
            continue
        if start < flag_start:
            pieces.append((start, flag_start, 0))
            start = flag_start
        inside_end = min(end, flag_end)
        pieces.append((start, inside_end, 1))
        start = inside_end
    if start < end:
        pieces.append((start, end, 0))
    return pieces


def uncovered(span: Span, covered: tuple[Span, ...]) -> list[Span]:
    """The parts of `span` outside the disjoint ascending spans `covered`."""
    if not covered:
        return [span] if span[0] < span[1] else []
    return [(start, end) for start, end, flag in split_at(span, covered) if not flag and start < end]
