"""Half-open time spans [start, end) in ms: union, intersection and difference.

Plain integers; knows nothing of jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

Span = tuple[int, int]
#: (start_ms, end_ms, rate per ms, 1 if lost): disjoint, ascending.
Interval = tuple[int, int, int, int]


def union(spans: Iterable[Span]) -> tuple[Span, ...]:
    """Return disjoint, ascending spans that cover the same instants; empty ones are dropped."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[0] < span[1]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return tuple(merged)


def length_ms(spans: Iterable[Span]) -> int:
    """Return the total length of the (disjoint) spans."""
    return sum(end - start for start, end in spans)


def exclusive_ms(spans_by_number: Mapping[int, Iterable[Span]]) -> dict[int, int]:
    """Return for each number the length of its spans that no smaller number covers."""
    covered: tuple[Span, ...] = ()
    found: dict[int, int] = {}
    for number in sorted(spans_by_number):
        both = union((*covered, *spans_by_number[number]))
        found[number] = length_ms(both) - length_ms(covered)
        covered = both
    return found


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
    """Return the parts of `span` outside the disjoint ascending spans `covered`."""
    if not covered:
        return [span] if span[0] < span[1] else []
    return [(start, end) for start, end, flag in split_at(span, covered) if not flag and start < end]
