"""The slow, obvious twin of each kernel, in Python integers.

Must not import anything of `streams`.
"""

from __future__ import annotations

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


def diff_minutes(old: list[list[Interval]], new: list[list[Interval]]) -> list[tuple[int, int, int, int]]:
    """(line, minute, quantity, lost) of the minutes that differ."""
    rows: list[tuple[int, int, int, int]] = []
    for line, (before, after) in enumerate(zip(old, new, strict=True)):
        was, now = minutes_of(before), minutes_of(after)
        rows += [
            (line, minute, *now.get(minute, (0, 0)))
            for minute in sorted(was.keys() | now.keys())
            if was.get(minute, (0, 0)) != now.get(minute, (0, 0))
        ]
    return rows
