"""The end of a metered curve from counted seconds, beside a walk over them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest

from schemas.durations import BEGINNING_MS, MINUTE_MS
from schemas.events import GpuEvent
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.curve_extension import TAIL
from streams.engine.windows.curve import METERED_HOLDS_MS
from streams.engine.windows.curves import CurveBook
from tests.engine.coverage.samples import T0_S, sample

FIRST = T0_S // 60 + 1  # minute
MINUTES = 6
#: Nano-dollars of a GPU in each second: one price, and one that rises in the middle.
RATES = np.array([[600.0] * 60, [100.0] * 31 + [700.0] * 29])
Step = tuple[int, float, float, bool]


def naive(counts: dict[int, int], row_of: dict[int, int], expected: float | None) -> list[Step]:
    """(from_ms, cost rate, expected rate, paid) of each step; expected None: what the first second costs."""
    steps: list[Step] = [(BEGINNING_MS, 0.0, 0.0, False)]
    for second in range(FIRST * 60, (FIRST + MINUTES) * 60 + 1):
        minute = second // 60
        gpus = counts.get(second, 0) if minute in row_of else 0
        rate = gpus * RATES[row_of[minute], second % 60] / 1000 if gpus else 0.0
        rate = round(rate * 2**40) / 2**40
        if gpus and expected is None:
            expected = rate * 3_600_000
        what = (rate, (expected or 0.0) / 3_600_000 if gpus else 0.0, gpus > 0)
        if what != steps[-1][1:]:
            steps.append((second * 1000, *what))
    return steps


def of_job(at_s: int, interval_s: int, node: str, gpus: list[str]) -> GpuEvent:
    ratio = [1.0] * len(gpus)
    return sample(at_s - T0_S, interval_s, job_id="job", node=node, gpus=gpus, util_ratio=ratio)


def counted(events: list[GpuEvent]) -> dict[int, int]:
    covered = {
        (event.node, gpu, second)
        for event in events
        for gpu in event.gpus
        for second in range((event.time_ms - event.interval_ms) // 1000, event.time_ms // 1000)
    }
    found: dict[int, int] = {}
    for _, _, second in covered:
        found[second] = found.get(second, 0) + 1
    return found


def put(
    book: CurveBook, coverage: Coverage, row_of: dict[int, int], first: int, expected: float | None
) -> None:
    minutes = sorted(minute for minute in row_of if minute >= first)
    holders = coverage.holders_of("job", 1)
    is_whole = expected is None
    tail = (
        book.slot("job"), first * MINUTE_MS, is_whole, np.nan if is_whole else expected, METERED_HOLDS_MS,
        0, len(minutes), 0, len(holders), 0,
    )  # fmt: skip
    book.extend(
        np.array([tail], TAIL),
        np.array(minutes, np.int64),
        np.array([row_of[minute] for minute in minutes], np.int64),
        RATES,
        np.array(holders, np.int64),
        coverage.store,
    )


def steps_of(book: CurveBook) -> list[Step]:
    entry = book._curves[book.slot("job")]
    rows = book._steps.rows[entry["step_at"] : entry["step_at"] + entry["steps"]]
    lengths_ms = np.diff(rows["from_ms"])
    for name, rate in (("cost_sum", "cost_rate"), ("expected_sum", "expected_rate"), ("paid_sum_ms", "paid")):
        np.testing.assert_array_equal(
            rows[name], np.concatenate(([0], np.cumsum(rows[rate][:-1] * lengths_ms)))
        )
    return [
        (int(r["from_ms"]), float(r["cost_rate"]), float(r["expected_rate"]), bool(r["paid"])) for r in rows
    ]


@pytest.mark.parametrize("seed", range(20))
def test_tails_are_what_the_seconds_say(seed: int) -> None:
    draw = random.Random(seed)
    coverage, book, events = Coverage(), CurveBook(), []
    skipped = {minute for minute in range(FIRST + 1, FIRST + MINUTES) if draw.random() < 0.2}
    row_of = {m: draw.randrange(2) for m in range(FIRST, FIRST + MINUTES) if m not in skipped}
    whole_expected: float | None = None
    for minute in range(FIRST, FIRST + MINUTES):
        new = [
            of_job(
                minute * 60 + draw.randint(1, 60),
                draw.randint(1, 20),
                draw.choice("nm"),
                draw.sample(["a", "b", "c"], draw.randint(1, 3)),
            )
            for _ in range(draw.randrange(4))
        ]
        new = [e for e in new if (e.time_ms - e.interval_ms) // 1000 >= minute * 60]
        if minute == FIRST:
            new.append(of_job(FIRST * 60 + 5, 5, "n", ["a"]))
        coverage.fold(new)
        events += new
        so_far = {m: row for m, row in row_of.items() if m <= minute}
        put(book, coverage, so_far, FIRST if whole_expected is None else minute, whole_expected)
        expected = naive(counted(events), so_far, None)
        assert steps_of(book) == expected
        whole_expected = expected[1][2] * 3_600_000
    entry = book._curves[0]
    assert (entry["first_paid_ms"], entry["holds_ms"]) == (expected[1][0], METERED_HOLDS_MS)
    whole = CurveBook()
    put(whole, coverage, row_of, FIRST, None)
    assert steps_of(whole) == expected
    assert whole.last_ms("job") == expected[-1][0]
