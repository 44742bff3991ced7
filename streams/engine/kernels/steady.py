"""Checks whether jobs continue unchanged, so that no alert can open and rows are due at whole minutes only."""

from __future__ import annotations

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I64, Records

# Special values of the end of a curve's steady time: not computed; not steady.
UNKNOWN = -1
BUSY = BEGINNING_MS
#: A cent more than expected opens an alert at the earliest. Below this many nano-dollars per ms ($36,000 an hour), the
#: rounding error of a window's sum over ten years is far less of a cent than this margin.
MARGIN_RATIO = 1e-4
MOST_RATE = 1e7


@kernel
def is_steady(
    steady_ms: I64,
    curves: Records,
    steps: Records,
    facts: Records,
    notified_ms: I64,
    longest_ms: I64,
    least_ratio: F64,
    first_ms: int,
    last_ms: int,
) -> bool:
    """Whether in [first_ms, last_ms] no job's cost can reach a ratio, all keep their rates, and no fact holds.

    `steady_ms` [job] is updated where it is before `first_ms`. `longest_ms` ([profile]): how long a job may be billed; until
    `notified_ms` [job] nobody hears that it was for longer.
    `least_ratio` ([profile]): of cost to expected cost, below which no rule opens.
    """
    for job in range(steady_ms.size):
        if steady_ms[job] == BUSY:
            return False
    for job in range(steady_ms.size):
        if _may_hold(curves[job], facts, notified_ms[job], longest_ms, first_ms, last_ms):
            return False
    steady = True
    for job in range(steady_ms.size):
        if steady_ms[job] < first_ms:
            ratio = least_ratio[curves[job]["profile"]] * (1.0 - MARGIN_RATIO)
            steady_ms[job] = _steady_until_ms(curves, steps, job, ratio, first_ms)
        steady = steady and steady_ms[job] > last_ms
    return steady


@helper
def _may_hold(
    curve: Records, facts: Records, notified_ms: int, longest_ms: I64, first_ms: int, last_ms: int
) -> bool:
    """Whether a fact may hold at any instant of [first, last]."""
    for fact in range(curve["fact_at"], curve["fact_at"] + curve["facts"]):
        if facts[fact]["from_ms"] <= last_ms and facts[fact]["until_ms"] > first_ms:
            return True
    if curve["ended_ms"] <= first_ms:
        return False
    if curve["deadline_ms"] <= last_ms:
        return True
    return bool(
        curve["first_paid_ms"] >= 0
        and last_ms - curve["first_paid_ms"] >= longest_ms[curve["profile"]]
        and last_ms >= notified_ms
    )


@helper
def _steady_until_ms(curves: Records, steps: Records, job: int, ratio: float, at_ms: int) -> int:
    """The first change of a curve at or after an instant; BUSY if it costs more than `ratio` x expected before."""
    curve = curves[job]
    if curve["lumps"] > 0 or curve["holds_ms"] != 0:
        return BUSY
    found = NEVER_MS if curve["ended_ms"] < at_ms else curve["ended_ms"]
    for at in range(curve["step_at"], curve["step_at"] + curve["steps"]):
        step = steps[at]
        if step["from_ms"] >= at_ms:
            return int(min(found, step["from_ms"]))
        if not step["cost_rate"] <= step["expected_rate"] * ratio or step["cost_rate"] > MOST_RATE:
            return BUSY
    return int(found)
