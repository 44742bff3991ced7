"""The slow, obvious twin of the burn kernels: every window by exact integration over clipped steps."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

MINUTE_MS = 60_000
WINDOWS_MS = (5 * MINUTE_MS, 15 * MINUTE_MS, 60 * MINUTE_MS, 360 * MINUTE_MS)
NEVER_MS = 2**62

Amount = int | float | Fraction
Piece = tuple[int, int, Amount]
"""start_ms, end_ms, rate per ms; pieces may overlap."""


class Figure(NamedTuple):
    """One window of one job at one tick."""

    cost: Fraction
    expected: Fraction
    elapsed_ms: int
    paid_whole: bool


def between(pieces: list[Piece], from_ms: int, until_ms: int) -> Fraction:
    """The integral over [from, until)."""
    total = Fraction(0)
    for start_ms, end_ms, rate in pieces:
        overlap_ms = min(end_ms, until_ms) - max(start_ms, from_ms)
        if overlap_ms > 0:
            total += Fraction(rate) * overlap_ms
    return total


def window(
    t_ms: int,
    window_ms: int,
    cost: list[Piece],
    expected: list[Piece],
    paid: list[tuple[int, int]],
    lumps: dict[int, Amount],
) -> Figure:
    """The whole minutes of the window, the tick's minute so far, and the minute at the far edge in proportion."""
    edge_ms = t_ms - window_ms
    whole_from_ms = -(-edge_ms // MINUTE_MS) * MINUTE_MS
    far_ms = whole_from_ms - MINUTE_MS
    share = Fraction(whole_from_ms - edge_ms, MINUTE_MS)
    found = [
        between(pieces, whole_from_ms, t_ms) + share * between(pieces, far_ms, whole_from_ms)
        for pieces in (cost, expected)
    ]
    for minute, amount in lumps.items():
        if whole_from_ms <= minute * MINUTE_MS <= t_ms:
            found[0] += Fraction(amount)
        elif minute * MINUTE_MS == far_ms:
            found[0] += share * Fraction(amount)
    first_ms = min((start for start, end in paid if start < end), default=NEVER_MS)
    return Figure(
        cost=found[0],
        expected=found[1],
        elapsed_ms=max(0, min(window_ms, t_ms - first_ms)),
        paid_whole=covered_ms(paid, edge_ms, t_ms) == window_ms,
    )


def covered_ms(spans: list[tuple[int, int]], from_ms: int, until_ms: int) -> int:
    """How much of [from, until) any span covers."""
    total, reached = 0, from_ms
    for start_ms, end_ms in sorted(spans):
        start_ms, end_ms = max(start_ms, reached), min(end_ms, until_ms)
        if start_ms < end_ms:
            total += end_ms - start_ms
            reached = end_ms
    return total


class Seen(NamedTuple):
    """What the row policy sees of a job at a tick; rates as whole numbers."""

    t_ms: int
    now: int
    expected: int
    ended: bool
    window_cost: float
    begun: bool


def chosen(ticks: list[Seen], ended_ms: int) -> list[bool]:
    """Which ticks are written, in the words of the policy."""
    written: list[tuple[str, int, int]] = []
    found: list[bool] = []
    for seen in ticks:
        last = written[-1] if written else ("none", 0, 0)
        minute, ten_minutes = seen.t_ms % MINUTE_MS == 0, seen.t_ms % (10 * MINUTE_MS) == 0
        differs = (seen.now, seen.expected) != last[1:]
        empty = seen.now == 0 and seen.window_cost == 0
        if not seen.ended:
            sort = "on"
            write = (seen.begun or not empty or last[0] != "none") and (minute or differs or last[0] != "on")
        elif empty:
            sort = "empty"
            write = last[0] in ("on", "ended")
        else:
            sort = "ended"
            soon = seen.t_ms - ended_ms <= 15 * MINUTE_MS
            write = differs or last[0] != "ended" or (minute if soon else ten_minutes)
        found.append(write)
        if write:
            written.append((sort, seen.now, seen.expected))
    return found


def again(
    t_ms: int, lumps: dict[int, Amount], *, on_gpus: bool, in_bursts: bool
) -> tuple[Fraction, Fraction, Fraction]:
    """What comes steadily, repeatedly and recurringly: the least of the last equal spans, of hours or of two."""
    t_ms -= 10 * MINUTE_MS
    if not on_gpus:
        return Fraction(0), Fraction(0), Fraction(0)

    def since(minutes: int) -> Fraction:
        return window(t_ms, minutes * MINUTE_MS, [], [], [], lumps).cost if minutes else Fraction(0)

    def spans(hours: int) -> list[Fraction]:
        return [since(30 * hours * (k + 2)) - since(30 * hours * k) for k in range(5)]

    alike = [min(of) / hours for hours in (1, 2) for of in (spans(hours),) if 2 * min(of) >= max(of)]
    return (
        min(spans(1)),
        max(alike, default=Fraction(0)) if in_bursts else Fraction(0),
        min(spans(2)[::2][:2]),
    )
