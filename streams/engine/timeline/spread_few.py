"""Spreads a few amounts in plain Python integers, with the same result as the kernel and without its arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Line

_MOST: Final = 2**63 - 1


class IntervalAmount(NamedTuple):
    """An amount over an interval; `steps`: lines, one per price, ascending in time, the first without a beginning."""

    linear: bool  # the amount accrues in each millisecond
    amount: int
    start_ms: int
    interval_ms: int
    steps: Sequence[tuple[int, Line]]

    def between(self, from_ms: int, until_ms: int) -> int:
        """The part of the amount in [from_ms, until_ms)."""
        if self.linear:
            return min(self.amount * min(until_ms - from_ms, self.interval_ms), _MOST)
        if self.interval_ms == 0:
            return self.amount
        before = self.amount * (from_ms - self.start_ms) // self.interval_ms
        return self.amount * (until_ms - self.start_ms) // self.interval_ms - before

    def lost_between(self, from_ms: int, until_ms: int, lost: Sequence[Span]) -> int:
        """The lost part of it."""
        found = 0
        for lost_from_ms, lost_until_ms in lost:
            begin_ms, end_ms = max(lost_from_ms, from_ms), min(lost_until_ms, until_ms)
            if begin_ms < end_ms:
                found = min(found + self.between(begin_ms, end_ms), _MOST)
        return found


def spread_few(
    amounts: Sequence[IntervalAmount], lo_minute: int, hi_minute: int, lost: Sequence[Span]
) -> dict[tuple[Line, int], tuple[int, int]]:
    """(line, minute) -> (quantity, lost quantity) of the minutes [lo_minute, hi_minute), without zero quantities."""
    found: dict[tuple[Line, int], tuple[int, int]] = {}
    for each in amounts:
        at_ms = max(each.start_ms, lo_minute * MINUTE_MS)
        stop_ms = min(each.start_ms + max(each.interval_ms, 1), hi_minute * MINUTE_MS)
        steps, step = each.steps, 0
        while at_ms < stop_ms:
            while step + 1 < len(steps) and steps[step + 1][0] <= at_ms:
                step += 1
            minute = at_ms // MINUTE_MS
            until_ms = min(stop_ms, (minute + 1) * MINUTE_MS)
            if step + 1 < len(steps):
                until_ms = min(until_ms, steps[step + 1][0])
            part = each.between(at_ms, until_ms)
            if part > 0:
                key = (steps[step][1], minute)
                quantity, lost_quantity = found.get(key, (0, 0))
                lost_part = each.lost_between(at_ms, until_ms, lost)
                found[key] = (min(quantity + part, _MOST), min(lost_quantity + lost_part, _MOST))
            at_ms = until_ms
    return found
