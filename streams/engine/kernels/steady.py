"""Checks whether jobs continue unchanged, so that no alert can open and rows are due at whole minutes only.

Must not know an alert's rule: what costs no more than expected opens none.
"""

from __future__ import annotations

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import BEGINNING_MS, I64, NEVER_MS, Records

# Until when a curve is steady, where that is no instant: not known yet; not at all.
UNKNOWN = -1
BUSY = BEGINNING_MS
#: Less than any alert's ratio by far; and below so many nano-dollars per ms no window's noise comes to a dollar.
SAME_RATIO = 1 + 1e-9
MOST_RATE = 1e9


@kernel
def is_steady(steady_ms: I64, curves: Records, steps: Records, first_ms: int, last_ms: int) -> bool:
    """Whether from one instant to another one no job costs more than expected, and all go on at the rates they have.

    `steady_ms` [job] is brought up to date where it is before `first_ms`.
    """
    for job in range(steady_ms.size):
        if steady_ms[job] == BUSY:
            return False
    steady = True
    for job in range(steady_ms.size):
        if steady_ms[job] < first_ms:
            steady_ms[job] = _steady_until_ms(curves, steps, job, first_ms)
        steady = steady and steady_ms[job] > last_ms
    return steady


@helper
def _steady_until_ms(curves: Records, steps: Records, job: int, at_ms: int) -> int:
    """The first change of a curve at or after an instant; BUSY if before that it costs more than expected."""
    curve = curves[job]
    if curve["lumps"] > 0 or curve["holds_ms"] != 0 or curve["unpriced_from_ms"] != NEVER_MS:
        return BUSY
    found = NEVER_MS if curve["ended_ms"] < at_ms else curve["ended_ms"]
    for at in range(curve["step_at"], curve["step_at"] + curve["steps"]):
        step = steps[at]
        if step["from_ms"] >= at_ms:
            return int(min(found, step["from_ms"]))
        if not step["cost_rate"] <= step["expected_rate"] * SAME_RATIO or step["cost_rate"] > MOST_RATE:
            return BUSY
    return int(found)
