"""The rule `traffic` as docs/rules.md has it, on what network and storage cost minute by minute.

Must import nothing of the project; costs are in any unit, times 60,000 where they are of windows.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from fractions import Fraction
from itertools import accumulate, pairwise
from typing import NamedTuple

from tests.oracle.model import HOUR_MS, MINUTE_MS

#: "A threshold that is missed by less than 1e-9 of it counts as reached."
NOISE = Fraction(1, 10**9)


class Lumps:
    """Costs that belong to a minute as a whole."""

    def __init__(self, of_minute: Mapping[int, int]) -> None:
        self._minutes = sorted(of_minute)
        self._sums = list(accumulate((of_minute[m] for m in self._minutes), initial=0))

    def __bool__(self) -> bool:
        return bool(self._minutes)

    def before(self, minute: int) -> int:
        """The lumps of all earlier minutes."""
        return self._sums[bisect_right(self._minutes, minute - 1)]

    def last(self, minutes: int) -> list[int]:
        """The lumps of so many minutes up to the newest."""
        newest = self._minutes[-1] if self._minutes else 0
        return [
            cost
            for minute, (a, b) in zip(self._minutes, pairwise(self._sums), strict=True)
            for cost in (b - a,)
            if minute > newest - minutes
        ]

    def within(self, at_ms: int, window_ms: int) -> int:
        """Those of a window, times 60,000: of the minute at its far edge the part inside."""
        if not self._minutes:
            return 0
        far, inside_ms = divmod(at_ms - window_ms, MINUTE_MS)
        known, a, b = (self.before(m) for m in (at_ms // MINUTE_MS + 1, far, far + 1))
        return (known - a) * MINUTE_MS - inside_ms * (b - a)


class Hour(NamedTuple):
    """An hour of a job that ends at an instant: what it cost and what was expected, times 60,000."""

    at_ms: int
    cost: int
    expected: int
    has_started: bool  # it began to pay an hour ago or earlier
    first_paid_ms: int | None
    on_gpus: bool


def moves(lumps: Lumps, hour: Hour, limits: Mapping[str, Fraction], per_usd: int, *, goes_on: bool) -> bool:
    """Whether traffic is more than what is expected, and dear, new, or the same again and again; `per_usd`: a dollar."""
    traffic = lumps.within(hour.at_ms, HOUR_MS)
    rest, usd = hour.cost - traffic, per_usd * MINUTE_MS
    announced = Fraction(6, 5) * hour.expected * (1 + NOISE)

    def reaches(amount: Fraction | int, ratio: str, part: Fraction = Fraction(1)) -> bool:
        enough = amount >= part * limits["usd_per_hour"] * usd
        return enough and amount >= part * limits[ratio] * rest * (1 - NOISE)

    spans = {hours: _spans(lumps, hour, hours) for hours in (1, 2)}
    recurring = min(spans[2][0], spans[2][2])
    alike = [Fraction(min(of), hours) for hours, of in spans.items() if 2 * min(of) >= max(of)]
    again = recurring if goes_on else max(alike, default=0) if _in_bursts(lumps) else 0
    if reaches(again, "repeated_ratio") and rest + Fraction(recurring, 2) > announced:
        return True
    if hour.cost <= announced:
        return False
    if goes_on:
        return reaches(traffic, "ratio", Fraction(4, 5))
    dear, quarter = limits["page_usd_per_hour"] * usd, lumps.within(hour.at_ms, 15 * MINUTE_MS)
    is_young = traffic < Fraction(5, 4) * quarter * (1 - NOISE) and 4 * quarter < dear
    is_more = traffic > limits["start_times"] * _start(lumps, hour.first_paid_ms) * (1 + NOISE)
    is_new = hour.has_started and is_more and not is_young
    return reaches(traffic, "ratio") and (is_new or traffic >= dear or reaches(min(spans[1]), "ratio"))


def _spans(lumps: Lumps, hour: Hour, hours: int) -> list[int]:
    """The traffic of spans of so many hours of the last three, by half a span, up to 10 min before; of a job on GPUs."""
    if not hour.on_gpus:
        return [0] * 5
    known_ms, half_ms = hour.at_ms - 10 * MINUTE_MS, hours * HOUR_MS // 2
    ends = [0, *(lumps.within(known_ms, k * half_ms) for k in range(1, 7))]
    return [b - a for a, b in zip(ends, ends[2:], strict=False)]


def _start(lumps: Lumps, first_paid_ms: int | None) -> int:
    """The traffic of minutes that began by the end of the first paid hour, times 60,000."""
    if first_paid_ms is None:
        return 0
    return lumps.before(-(-(first_paid_ms + HOUR_MS) // MINUTE_MS)) * MINUTE_MS


def _in_bursts(lumps: Lumps) -> bool:
    """Whether at most 120 of the 180 minutes up to the newest with traffic have a tenth of their mean each."""
    recent = lumps.last(180)
    return sum(1800 * cost >= sum(recent) for cost in recent) <= 120


def traffic_waste(lumps: Lumps, at_ms: int) -> Fraction:
    """What traffic costs per hour, as a cost per ms: that of the last hour; of the last quarter, where it is new."""

    def since(span_ms: int) -> int:
        return lumps.before(at_ms // MINUTE_MS + 1) - lumps.before((at_ms - span_ms) // MINUTE_MS)

    hour = since(HOUR_MS)
    is_new = 2 * (since(2 * HOUR_MS) - hour) < hour
    return Fraction(max(hour, 4 * since(15 * MINUTE_MS)) if is_new else hour, HOUR_MS)
