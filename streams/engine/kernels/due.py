"""Chooses which burn rates are written: at changes and whole minutes, and at growing intervals after a job's end.

The state is only the last written row of each job.
"""

from __future__ import annotations

import numpy as np

from schemas.durations import MINUTE_MS
from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import F64, I64, Records
from streams.engine.kernels.burn import WINDOWS_MS, Bool

#: After the end: each minute for this long, then every tenth.
CLOSE_MS = 900_000
RARELY_MS = 600_000
LONGEST_MS = WINDOWS_MS[-1]

# Kinds of the last written row of a job.
NONE = 0
ONGOING = 1
ENDED = 2
EMPTY = 3  # ended, and all windows empty: no row follows
FORGOTTEN = 4  # restored: a former owner may have written any

LAST_ROW = np.dtype([("now_rate", np.float64), ("expected_rate", np.float64), ("kind", np.int64)], align=True)


@kernel
def choose_rows(
    times_ms: I64,
    now_rate: F64,
    expected_rate: F64,
    ended: Bool,
    cost: F64,
    elapsed_ms: I64,
    ended_ms: I64,
    index: I64,
    last: Records,
    chosen: Bool,
) -> int:
    """Fill `chosen` [tick, job] and update the last rows, job j's at index[j]; return how many were chosen.

    Rates count as changed if they differ in whole nano-dollars per hour.
    """
    found = 0
    longest = cost.shape[2] - 1
    for job in range(index.size):
        row = index[job]
        kind = last[row]["kind"]
        last_now = last[row]["now_rate"]
        last_expected = last[row]["expected_rate"]
        for tick in range(times_ms.size):
            t_ms = times_ms[tick]
            now = np.rint(now_rate[tick, job])
            expected = np.rint(expected_rate[tick, job])
            changed = now != last_now or expected != last_expected
            costs = now != 0.0 or cost[tick, job, longest] != 0.0
            if ended[tick, job]:
                if not costs:
                    # A late event may say that it ended before it was ever billed: the row before said otherwise.
                    recent = elapsed_ms[tick, job, longest] > 0 or t_ms - ended_ms[job] < LONGEST_MS
                    due = kind in (ONGOING, ENDED) or (kind == FORGOTTEN and recent)
                    next_kind = EMPTY
                else:
                    every_ms = MINUTE_MS if t_ms - ended_ms[job] <= CLOSE_MS else RARELY_MS
                    due = kind != ENDED or changed or t_ms % every_ms == 0
                    next_kind = ENDED
            else:
                begun = kind not in (NONE, FORGOTTEN) or costs or elapsed_ms[tick, job, longest] > 0
                due = begun and (kind != ONGOING or changed or t_ms % MINUTE_MS == 0)
                next_kind = ONGOING
            chosen[tick, job] = due
            if due:
                found += 1
                kind, last_now, last_expected = next_kind, now, expected
        last[row]["kind"] = kind
        last[row]["now_rate"] = last_now
        last[row]["expected_rate"] = last_expected
    return found


@kernel
def write_rows(
    times_ms: I64,
    chosen: Bool,
    now_rate: F64,
    expected_rate: F64,
    cost: F64,
    elapsed_ms: I64,
    expected: F64,
    window: int,
    at: int,
    row_ms: I64,
    row_job: I64,
    row_now_rate: F64,
    row_expected_rate: F64,
    row_cost: F64,
    row_elapsed_ms: I64,
    row_expected: F64,
) -> None:
    """Write the chosen [tick, job] as rows from `at` on, ticks ascending; expected cost of one window only."""
    for tick in range(chosen.shape[0]):
        for job in range(chosen.shape[1]):
            if chosen[tick, job]:
                row_ms[at] = times_ms[tick]
                row_job[at] = job
                row_now_rate[at] = now_rate[tick, job]
                row_expected_rate[at] = expected_rate[tick, job]
                row_expected[at] = expected[tick, job, window]
                for k in range(cost.shape[2]):
                    row_cost[at, k] = cost[tick, job, k]
                    row_elapsed_ms[at, k] = elapsed_ms[tick, job, k]
                at += 1
