"""The slow, obvious twin of each kernel, in Python integers."""

from __future__ import annotations

import itertools

MAX_COST_NANO = 10**18 - 1
INT64_MAX = 2**63 - 1


def cost_nano(quantity: int, usd_nano: int, divisor: int) -> tuple[int, bool]:
    """Half to even, and whether the cap took hold."""
    cost, rest = divmod(quantity * usd_nano, divisor)
    if 2 * rest > divisor or (2 * rest == divisor and cost % 2 == 1):
        cost += 1
    return min(cost, MAX_COST_NANO), cost > MAX_COST_NANO


def mul_div_mod(a: int, b: int, d: int) -> tuple[int, int]:
    """Floor and remainder; the floor saturates."""
    return min(a * b // d, INT64_MAX), a * b % d


Interval = tuple[int, int, int, int]
"""start_ms, end_ms, rate per ms, lost."""


def minutes_of(intervals: list[Interval]) -> dict[int, tuple[int, int]]:
    """minute -> (quantity, lost quantity), one millisecond boundary of a minute after the other."""
    rows: dict[int, tuple[int, int]] = {}
    for start, end, rate, lost in intervals:
        if end <= start or rate <= 0:
            continue
        for minute in range(start // 60_000, (end - 1) // 60_000 + 1):
            part = min(end, minute * 60_000 + 60_000) - max(start, minute * 60_000)
            quantity, lost_quantity = rows.get(minute, (0, 0))
            rows[minute] = quantity + rate * part, lost_quantity + (rate * part if lost else 0)
    return rows


def diff_minutes(
    old: list[list[Interval]], new: list[list[Interval]]
) -> list[tuple[int, int, int, int, int]]:
    """(line, minute, quantity, lost, quantity before) of the minutes that differ."""
    rows: list[tuple[int, int, int, int, int]] = []
    for line, (before, after) in enumerate(zip(old, new, strict=True)):
        was, now = minutes_of(before), minutes_of(after)
        rows += [
            (line, minute, *now.get(minute, (0, 0)), was.get(minute, (0, 0))[0])
            for minute in sorted(was.keys() | now.keys())
            if was.get(minute, (0, 0)) != now.get(minute, (0, 0))
        ]
    return rows


Cuts = list[tuple[int, int]]
"""(from_ms, line), rising."""
Amount = tuple[int, int, int, int, Cuts]
"""linear, amount, start_ms, interval_ms, cuts."""


def _before(linear: int, amount: int, start: int, interval: int, at: int) -> int:
    passed = min(max(at - start, 0), interval)
    return amount * passed if linear else amount * passed // interval


def _line_at(cuts: Cuts, at: int) -> int:
    return next((line for from_ms, line in reversed(cuts) if from_ms <= at), -1)


def spread(
    events: list[Amount], lo_minute: int, hi_minute: int, lost: list[tuple[int, int]]
) -> list[tuple[int, int, int, int]]:
    """(line, minute, quantity, lost): every boundary of minutes, cuts and lost intervals makes a piece."""
    sums: dict[tuple[int, int], tuple[int, int]] = {}

    def add(line: int, at: int, quantity: int, is_lost: bool) -> None:
        if line >= 0 and lo_minute <= at // 60_000 < hi_minute and quantity:
            was, was_lost = sums.get((line, at // 60_000), (0, 0))
            sums[line, at // 60_000] = was + quantity, was_lost + (quantity if is_lost else 0)

    for linear, amount, start, interval, cuts in events:
        end = start + interval
        if interval == 0:
            if not linear:
                add(_line_at(cuts, start), start, amount, any(s <= start < e for s, e in lost))
            continue
        marks = {start, end, *(m * 60_000 for m in range(start // 60_000 + 1, end // 60_000 + 1))}
        marks |= {at for at, _ in cuts if start < at < end}
        marks |= {at for pair in lost for at in pair if start < at < end}
        edges = sorted(marks)
        for a, b in itertools.pairwise(edges):
            piece = _before(linear, amount, start, interval, b) - _before(linear, amount, start, interval, a)
            add(_line_at(cuts, a), a, piece, any(s <= a < e for s, e in lost))
    return [
        (line, minute, min(quantity, INT64_MAX), min(part, INT64_MAX))
        for (line, minute), (quantity, part) in sorted(sums.items())
    ]


def minute_pieces(counts: list[int], offsets: list[int]) -> list[int]:
    """GPU-milli-ms of the pieces of one minute, a millisecond at a time."""
    edges = [*offsets, 60_000]
    return [sum(counts[ms // 1000] * 1000 for ms in range(a, b)) for a, b in itertools.pairwise(edges)]
