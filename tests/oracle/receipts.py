"""The figures of receipts and digests, the plain way: from the hours and attempts of jobs.

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


def week_of(hours: Sequence[tuple[str, int, Hour]], from_ms: int, until_ms: int) -> dict[str, Any]:
    """A week of some jobs' hours (job, instant, hour), against the week before; all cost is that of GPUs."""
    inside = [(job, hour) for job, at_ms, hour in hours if from_ms <= at_ms < until_ms]
    before = [(job, hour) for job, at_ms, hour in hours if 2 * from_ms - until_ms <= at_ms < from_ms]
    cost, previous = (sum(hour.cost for _, hour in part) for part in (inside, before))
    sampled = sum(hour.sampled_ms for _, hour in inside)
    idle = sampled - sum(hour.productive_ms for _, hour in inside)
    by_job = {
        job: [sum(hour.cost for name, hour in part if name == job) for part in (before, inside)]
        for job, _ in [*inside, *before]
    }
    changes = {job: after - then for job, (then, after) in by_job.items() if after != then}
    return {
        "cost": cost,
        "previous": previous,
        "lost": sum(hour.lost for _, hour in inside),
        "unproductive": round(Fraction(cost * idle, sampled)) if sampled else None,
        "jobs": len({job for job, _ in inside}),
        "drivers": sorted(changes.items(), key=lambda each: (-abs(each[1]), each[0]))[:3],
        "largest": sorted(
            ((job, after) for job, (_, after) in by_job.items() if after),
            key=lambda each: (-each[1], each[0]),
        )[:3],
    }
