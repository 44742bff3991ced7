"""Rebuilds the end of a sampled job's curve from the seconds that its samples cover.

The cost of a GPU in each second of a minute is a row of a table.
"""

from __future__ import annotations

import numpy as np

from schemas.durations import BEGINNING_MS, HOUR_MS, MINUTE_MS
from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I64, Records
from streams.engine.kernels.burn import step_at
from streams.engine.kernels.coverage import find_row
from streams.engine.kernels.store import CoverageStore

#: Rates are multiples of 2**-40 nano-dollars per ms, so that sums return to exactly zero.
ONE = float(1 << 40)

#: A tail: the steps of one job from `from_ms` on, from some minutes in ascending order.
TAIL = np.dtype(
    [
        ("slot", np.int64),
        ("from_ms", np.int64),
        ("whole", np.int64),  # 1: replace all steps
        (
            "expected_per_hour",
            np.float64,
        ),  # NaN: the cost of the first sampled second, which is then written here
        ("holds_ms", np.int64),  # of the curve, once any second was sampled
        ("minute_at", np.int64),
        ("minutes", np.int64),
        ("holder_at", np.int64),
        ("holders", np.int64),
        ("wants", np.int64),  # out: required rows that did not fit; 0: done
    ],
    align=True,
)


@helper
def _count(
    minute: int, holder_at: int, holders: int, holder: I64, store: CoverageStore, seconds: I64
) -> None:
    """Count the sampled GPUs of all holders in each second of a minute."""
    for second in range(60):
        seconds[second] = 0
    for h in range(holder_at, holder_at + holders):
        at = find_row(holder[h], minute, store.cells, store.rows)
        if store.cells[at] == 0:
            continue
        counts_at = store.rows[store.cells[at] - 1]["counts_at"]
        if counts_at >= 0:
            for second in range(60):
                seconds[second] += np.int64(store.counts[counts_at, second])


@helper
def _add_step(built: Records, count: int, from_ms: int, rate: float, expected: float, paid: int) -> int:
    """Add a step unless it changes nothing; return the number of steps."""
    last = built[count - 1]
    if last["cost_rate"] == rate and last["expected_rate"] == expected and last["paid"] == paid:
        return count
    length_ms = from_ms - last["from_ms"]
    built[count]["from_ms"] = from_ms
    built[count]["cost_rate"] = rate
    built[count]["expected_rate"] = expected
    built[count]["paid"] = paid
    built[count]["cost_sum"] = last["cost_sum"] + last["cost_rate"] * length_ms
    built[count]["expected_sum"] = last["expected_sum"] + last["expected_rate"] * length_ms
    built[count]["paid_sum_ms"] = last["paid_sum_ms"] + last["paid"] * length_ms
    return count + 1


@helper
def _build(
    tails: Records,
    i: int,
    minute: I64,
    rate_row: I64,
    rates: F64,
    holder: I64,
    store: CoverageStore,
    seconds: I64,
    built: Records,
) -> int:
    """Build the steps after built[0], which stays; return their number including it."""
    count = 1
    end_ms = tails[i]["from_ms"]
    for k in range(tails[i]["minute_at"], tails[i]["minute_at"] + tails[i]["minutes"]):
        start_ms = minute[k] * MINUTE_MS
        if start_ms > end_ms:
            count = _add_step(built, count, end_ms, 0.0, 0.0, 0)
        _count(minute[k], tails[i]["holder_at"], tails[i]["holders"], holder, store, seconds)
        for second in range(60):
            at_ms = start_ms + second * 1000
            if seconds[second] == 0:
                count = _add_step(built, count, at_ms, 0.0, 0.0, 0)
                continue
            fractions = float(np.rint(seconds[second] * rates[rate_row[k], second] / 1000 * ONE))
            if np.isnan(tails[i]["expected_per_hour"]):
                tails[i]["expected_per_hour"] = fractions * HOUR_MS / ONE
            expected = tails[i]["expected_per_hour"] / HOUR_MS
            count = _add_step(built, count, at_ms, fractions / ONE, expected, 1)
        end_ms = start_ms + MINUTE_MS
    return _add_step(built, count, end_ms, 0.0, 0.0, 0)


@kernel
def write_tails(
    tails: Records,
    minute: I64,
    rate_row: I64,
    rates: F64,
    holder: I64,
    store: CoverageStore,
    curves: Records,
    steps: Records,
    seconds: I64,
    built: Records,
) -> int:
    """Build the tails of curves with enough room; return how many lack it, with their demand in `wants`.

    `seconds` ([60]) and `built` (61 steps per minute of a tail, plus two) are scratch arrays.
    """
    missed = 0
    for i in range(tails.size):
        tail = tails[i]
        curve = curves[tail["slot"]]
        at = curve["step_at"]
        last = 0
        if tail["whole"] != 0:
            built[0]["from_ms"] = BEGINNING_MS
            built[0]["cost_rate"] = 0.0
            built[0]["cost_sum"] = 0.0
            built[0]["expected_rate"] = 0.0
            built[0]["expected_sum"] = 0.0
            built[0]["paid"] = 0
            built[0]["paid_sum_ms"] = 0
        else:
            last = step_at(steps, at, at + curve["steps"] - 1, tail["from_ms"] - 1) - at
            built[0] = steps[at + last]
        count = _build(tails, i, minute, rate_row, rates, holder, store, seconds, built)
        tail["wants"] = last + count
        if last + count > curve["step_room"]:
            missed += 1
            continue
        tail["wants"] = 0
        for k in range(count):
            steps[at + last + k] = built[k]
        curve["steps"] = last + count
        if tail["whole"] != 0:
            curve["first_paid_ms"] = -1
            curve["holds_ms"] = 0
        for k in range(1, count):
            if built[k]["paid"] != 0:
                curve["holds_ms"] = tail["holds_ms"]
                if curve["first_paid_ms"] < 0:
                    curve["first_paid_ms"] = built[k]["from_ms"]
                break
    return missed
