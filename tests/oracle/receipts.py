"""A receipt's figures, the plain way: from the hours and attempts of one job, and from what others of its kind cost.

Must import nothing of the project. Money is in nano-dollars.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

FEWEST_OF_A_KIND = 5
HOUR_MS = 3_600_000


@dataclass(frozen=True)
class Hour:
    """What was paid, lost and sampled in one hour of one attempt."""

    cost: int
    lost: int = 0
    wall_ms: int = HOUR_MS
    sampled_ms: int = 0
    productive_ms: int = 0


def figures(
    hours: Sequence[Hour], attempts: Sequence[str], expected: Sequence[int], others: Sequence[int]
) -> dict[str, Any]:
    """`attempts`: how each ended; `expected`: the rate per hour at each whole minute; `others`: costs of its kind."""
    cost = sum(hour.cost for hour in hours)
    lost = sum(hour.lost for hour in hours)
    wall = sum(hour.wall_ms for hour in hours)
    sampled = sum(hour.sampled_ms for hour in hours)
    per_hour = round(Fraction(cost * HOUR_MS, wall)) if wall else None
    known = [rate for rate in expected if rate]
    mean = round(Fraction(sum(known), len(known))) if known else None
    return {
        "cost_usd": cost,
        "usd_per_hour": per_hour,
        "lost_usd": lost,
        "lost_ratio": lost / cost if cost else None,
        "productive_ratio": sum(hour.productive_ms for hour in hours) / sampled if sampled else None,
        "preemptions": sum(state == "preempted" for state in attempts),
        "failures": sum(state == "failed" for state in attempts),
        "expected": None if mean is None or per_hour is None else (mean, per_hour / mean),
        "median": median(others) if len(others) >= FEWEST_OF_A_KIND else None,
    }


def median(costs: Sequence[int]) -> int:
    """Half-way between the two middle ones, to even."""
    ascending = sorted(costs)
    middle = len(ascending) // 2
    if len(ascending) % 2:
        return ascending[middle]
    return round(Fraction(ascending[middle - 1] + ascending[middle], 2))
