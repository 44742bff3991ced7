"""Cost, expected cost and paid time of every job in every window before each tick, from prefix sums.

A job is a range of steps and a range of lumps.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I64, Records

Bool = NDArray[np.bool_]

#: Ascending: the kernel searches the far edge of each window at or before that of the shorter one.
WINDOWS_MS = (300_000, 900_000, 3_600_000, 21_600_000)
#: Up to this many steps are summed one by one: a difference of prefix sums has the rounding error of all before it.
FEW_STEPS = 8

#: A step lasts from `from_ms` to the next one of its job, the last without end; rates are per ms; sums are over the
#: earlier steps of the same job.
STEP = np.dtype(
    [
        ("from_ms", np.int64),
        ("cost_rate", np.float64),
        ("cost_sum", np.float64),
        ("expected_rate", np.float64),
        ("expected_sum", np.float64),
        ("paid", np.int64),  # 1 or 0
        ("paid_sum_ms", np.int64),
    ],
    align=True,
)
#: An amount that counts from the beginning of its minute; the sum is over the earlier lumps.
LUMP = np.dtype([("minute", np.int64), ("cost", np.float64), ("cost_sum", np.float64)], align=True)
#: A rule's condition, as far as is known, holds in [from, until), and explains this share of what accrues meanwhile.
FACT = np.dtype(
    [("rule", np.int64), ("from_ms", np.int64), ("until_ms", np.int64), ("explained_ratio", np.float64)]
)
CURVE = np.dtype(
    [
        ("first_paid_ms", np.int64),  # -1: none
        ("ended_ms", np.int64),
        ("deadline_ms", np.int64),  # NEVER_MS: none
        ("profile", np.int64),  # which settings of rules apply
        # until then an attempt may follow one that failed or was preempted; 0: none did
        ("undecided_until_ms", np.int64),
        ("holds_ms", np.int64),  # a paid step counts as current for this long after its end
        ("step_at", np.int64),
        ("steps", np.int64),  # at least 1
        ("step_room", np.int64),
        ("lump_at", np.int64),
        ("lumps", np.int64),
        ("lump_room", np.int64),
        ("fact_at", np.int64),
        ("facts", np.int64),
        ("fact_room", np.int64),
        ("turn", np.int64),  # at which ticks it is looked at closely
        ("start_cost", np.float64),  # the lumps of its first paid hour and before
        ("on_gpus", np.int64),  # 1: it has paid for GPUs
        ("in_bursts", np.int64),  # 1: its lumps are in some minutes only
    ],
    align=True,
)
#: The time between two turns of a job.
TURN_MS = 5 * MINUTE_MS
#: The window of the rule `traffic`, and its last quarter.
TRAFFIC_WINDOW = 2
QUARTER_WINDOW = 1
#: Bursts are alike if the least of them is at least this share of the largest.
LIKE_RATIO = 0.5
#: Amounts are reported so long after they moved: whether they come again is looked at up to then.
REPORTED_WITHIN_MS = 10 * MINUTE_MS


@helper
def step_at(steps: Records, lo: int, hi: int, at_ms: int) -> int:
    """The last step in [lo, hi] that begins at or before `at_ms`; `lo` if there is none."""
    while lo < hi:
        middle = (lo + hi + 1) >> 1
        if steps[middle]["from_ms"] <= at_ms:
            lo = middle
        else:
            hi = middle - 1
    return lo


@helper
def _lumps_before(lumps: Records, lo: int, hi: int, minute: int) -> int:
    """The first lump in [lo, hi) of `minute` or later; `hi` if there is none."""
    while lo < hi:
        middle = (lo + hi) >> 1
        if lumps[middle]["minute"] < minute:
            lo = middle + 1
        else:
            hi = middle
    return lo


@helper
def _cost_between(steps: Records, i: int, from_ms: int, j: int, until_ms: int) -> float:
    """Integrate the cost over [from, until), which begins in step i and ends in step j."""
    if i == j:
        return float(steps[i]["cost_rate"] * (until_ms - from_ms))
    total = steps[i]["cost_rate"] * (steps[i + 1]["from_ms"] - from_ms)
    last = steps[j]["cost_rate"] * (until_ms - steps[j]["from_ms"])
    if j - i > FEW_STEPS:
        return float(total + (steps[j]["cost_sum"] - steps[i + 1]["cost_sum"]) + last)
    for k in range(i + 1, j):
        total += steps[k]["cost_rate"] * (steps[k + 1]["from_ms"] - steps[k]["from_ms"])
    return float(total + last)


@helper
def _expected_between(steps: Records, i: int, from_ms: int, j: int, until_ms: int) -> float:
    """Integrate the expected cost likewise."""
    if i == j:
        return float(steps[i]["expected_rate"] * (until_ms - from_ms))
    total = steps[i]["expected_rate"] * (steps[i + 1]["from_ms"] - from_ms)
    last = steps[j]["expected_rate"] * (until_ms - steps[j]["from_ms"])
    if j - i > FEW_STEPS:
        return float(total + (steps[j]["expected_sum"] - steps[i + 1]["expected_sum"]) + last)
    for k in range(i + 1, j):
        total += steps[k]["expected_rate"] * (steps[k + 1]["from_ms"] - steps[k]["from_ms"])
    return float(total + last)


@helper
def _paid_until(steps: Records, i: int, at_ms: int) -> int:
    """The paid ms of the steps before i and of its part before `at_ms`."""
    return int(steps[i]["paid_sum_ms"] + steps[i]["paid"] * (at_ms - steps[i]["from_ms"]))


@helper
def _lump_cost(lumps: Records, lo: int, known: int, far_minute: int, far_share: float) -> float:
    """Sum the lumps in [lo, known) of later minutes than the far one, plus the share of the far one's."""
    far = _lumps_before(lumps, lo, known, far_minute)
    if far == known:
        return 0.0
    last = known - 1
    total = float(lumps[last]["cost_sum"] + lumps[last]["cost"] - lumps[far]["cost_sum"])
    if lumps[far]["minute"] == far_minute:
        total -= float(lumps[far]["cost"] * (1.0 - far_share))
    return total


@helper
def _shown(steps: Records, begin: int, now: int, t_ms: int, holds_ms: int) -> int:
    """The step that counts as current: sampled time ends with the newest sample, which is always in the past."""
    if now > begin and not steps[now]["paid"] and t_ms - steps[now]["from_ms"] < holds_ms:
        return now - 1
    return now


@helper
def _holding(curve: Records, facts: Records, t_ms: int) -> int:
    """The facts of a job that hold: bit r says that fact r does."""
    found = np.int64(0)
    for fact in range(curve["fact_at"], curve["fact_at"] + curve["facts"]):
        if facts[fact]["from_ms"] <= t_ms < facts[fact]["until_ms"]:
            found |= np.int64(1) << facts[fact]["rule"]
    return int(found)


@helper
def _explained_cost(
    curve: Records, facts: Records, steps: Records, now: int, edge_ms: int, t_ms: int
) -> float:
    """What facts explain of the cost that accrues in [edge, t); t is in step `now`."""
    total = 0.0
    for fact in range(curve["fact_at"], curve["fact_at"] + curve["facts"]):
        from_ms = max(facts[fact]["from_ms"], edge_ms)
        until_ms = min(facts[fact]["until_ms"], t_ms)
        if facts[fact]["explained_ratio"] > 0.0 and from_ms < until_ms:
            first = step_at(steps, int(curve["step_at"]), now, from_ms)
            last = step_at(steps, first, now, until_ms)
            total += facts[fact]["explained_ratio"] * _cost_between(steps, first, from_ms, last, until_ms)
    return float(total)


@kernel
def find_facts(
    curves: Records, facts: Records, rule: int, first_ms: int, last_ms: int, turn: int, slots: I64, rows: I64
) -> int:
    """Fill `slots` with the jobs of which the fact holds at any instant of [first, last]; return how many.

    Of jobs with this turn also if it holds before their next one. `rows`: where in `facts` that fact of each of them is.
    """
    count = 0
    for job in range(curves.size):
        for fact in range(curves[job]["fact_at"], curves[job]["fact_at"] + curves[job]["facts"]):
            until_ms = last_ms + TURN_MS if curves[job]["turn"] == turn else last_ms
            if (
                facts[fact]["rule"] == rule
                and facts[fact]["from_ms"] <= until_ms
                and facts[fact]["until_ms"] > first_ms
            ):
                slots[count] = job
                rows[count] = fact
                count += 1
                break
    return count


@helper
def _amounts_within(lumps: Records, lo: int, known: int, t_ms: int, span_ms: int) -> float:
    """Sum the lumps of (t - span, t], as a window has them."""
    edge_ms = t_ms - span_ms
    far_minute = edge_ms // MINUTE_MS
    return _lump_cost(lumps, lo, known, far_minute, ((far_minute + 1) * MINUTE_MS - edge_ms) / MINUTE_MS)


@helper
def _in_each_span(lumps: Records, lo: int, known: int, t_ms: int, span_ms: int) -> tuple[float, float]:
    """The least and the most that moved in spans of the last three, each of which begins in the middle of another one."""
    half_ms = span_ms // 2
    middle = _amounts_within(lumps, lo, known, t_ms, half_ms)
    end = least = most = _amounts_within(lumps, lo, known, t_ms, span_ms)
    for number in range(3, 7):
        before, middle, end = middle, end, _amounts_within(lumps, lo, known, t_ms, number * half_ms)
        least, most = min(least, end - before), max(most, end - before)
    return least, most


@helper
def _again(lumps: Records, lo: int, known: int, t_ms: int, in_bursts: int) -> tuple[float, float, float]:
    """What moves steadily, repeatedly and recurringly per span, as far as it is reported."""
    known_ms = t_ms - REPORTED_WITHIN_MS
    end = _lumps_before(lumps, lo, known, known_ms // MINUTE_MS + 1)
    two_hours = _amounts_within(lumps, lo, end, known_ms, 2 * HOUR_MS)
    four_hours = _amounts_within(lumps, lo, end, known_ms, 4 * HOUR_MS)
    steady = repeated = 0.0
    for hours in range(1, 3):
        least, most = _in_each_span(lumps, lo, end, known_ms, hours * HOUR_MS)
        if hours == 1:
            steady = least
        if in_bursts and least >= LIKE_RATIO * most:
            repeated = max(repeated, least / hours)
    return steady, repeated, min(two_hours, four_hours - two_hours)


@kernel
def fill_figures(
    times_ms: I64,
    curves: Records,
    steps: Records,
    lumps: Records,
    facts: Records,
    now_rate: F64,
    expected_rate: F64,
    cost: F64,
    expected: F64,
    elapsed_ms: I64,
    paid_whole: Bool,
    ended: Bool,
    undecided: Bool,
    paid_now: Bool,
    since_paid: I64,
    traffic: F64,
    basis: F64,
    holding: I64,
    steady: F64,
    repeated: F64,
    recurring: F64,
) -> int:
    """Fill the figures, with rates per hour; return the first tick that does not ascend (-1: none).

    `holding`: bit r says that fact r holds; `traffic`: the lumps by window; `basis`: what facts explain of the rest;
    `steady`, `repeated`, `recurring`: the least of some equal spans, of jobs on GPUs.
    """
    for tick in range(1, times_ms.size):
        if times_ms[tick] <= times_ms[tick - 1]:
            return tick
    for job in range(curves.size):
        begin = curves[job]["step_at"]
        end = begin + curves[job]["steps"] - 1
        lump_begin = curves[job]["lump_at"]
        lump_end = lump_begin + curves[job]["lumps"]
        first_paid_ms = curves[job]["first_paid_ms"]
        now = begin
        known = lump_begin
        for tick in range(times_ms.size):
            t_ms = times_ms[tick]
            now = step_at(steps, now, end, t_ms)
            known = _lumps_before(lumps, known, lump_end, t_ms // MINUTE_MS + 1)
            ended[tick, job] = t_ms >= curves[job]["ended_ms"]
            shown = now if ended[tick, job] else _shown(steps, begin, now, t_ms, curves[job]["holds_ms"])
            now_rate[tick, job] = steps[shown]["cost_rate"] * HOUR_MS
            expected_rate[tick, job] = steps[shown]["expected_rate"] * HOUR_MS
            paid_now[tick, job] = steps[shown]["paid"] != 0
            holding[tick, job] = _holding(curves[job], facts, t_ms)
            undecided[tick, job] = t_ms < curves[job]["undecided_until_ms"]
            since_paid_ms = max(t_ms - first_paid_ms, 0) if first_paid_ms >= 0 else 0
            since_paid[tick, job] = since_paid_ms
            paid_now_ms = _paid_until(steps, now, t_ms)
            steady[tick, job] = repeated[tick, job] = recurring[tick, job] = 0.0
            if known > lump_begin and curves[job]["on_gpus"]:
                steady[tick, job], repeated[tick, job], recurring[tick, job] = _again(
                    lumps, lump_begin, known, t_ms, curves[job]["in_bursts"]
                )
            far = now
            for window in range(len(WINDOWS_MS)):
                window_ms = WINDOWS_MS[window]
                edge_ms = t_ms - window_ms
                far_minute = edge_ms // MINUTE_MS
                far_ms = far_minute * MINUTE_MS
                next_ms = far_ms + MINUTE_MS
                elapsed_ms[tick, job, window] = min(window_ms, since_paid_ms)
                far = step_at(steps, begin, far, far_ms)
                if far == now:
                    cost_nano = steps[now]["cost_rate"] * window_ms
                    expected_nano = steps[now]["expected_rate"] * window_ms
                    paid_whole[tick, job, window] = steps[now]["paid"]
                else:
                    at_edge = far
                    while at_edge < now and steps[at_edge + 1]["from_ms"] <= edge_ms:
                        at_edge += 1
                    paid_ms = paid_now_ms - _paid_until(steps, at_edge, edge_ms)
                    paid_whole[tick, job, window] = paid_ms == window_ms
                    after = step_at(steps, at_edge, now, next_ms)
                    part_ms = next_ms - edge_ms
                    share = part_ms / MINUTE_MS
                    if after == far:
                        cost_nano = steps[far]["cost_rate"] * part_ms
                        expected_nano = steps[far]["expected_rate"] * part_ms
                    else:
                        cost_nano = _cost_between(steps, far, far_ms, after, next_ms) * share
                        expected_nano = _expected_between(steps, far, far_ms, after, next_ms) * share
                    cost_nano += _cost_between(steps, after, next_ms, now, t_ms)
                    expected_nano += _expected_between(steps, after, next_ms, now, t_ms)
                basis[tick, job, window] = _explained_cost(curves[job], facts, steps, now, edge_ms, t_ms)
                traffic[tick, job, window] = 0.0
                if known > lump_begin:
                    share = (next_ms - edge_ms) / MINUTE_MS
                    lump_nano = _lump_cost(lumps, lump_begin, known, far_minute, share)
                    cost_nano += lump_nano
                    traffic[tick, job, window] = lump_nano
                cost[tick, job, window] = cost_nano
                expected[tick, job, window] = expected_nano
    return -1
