"""Shapes that no longer come are forgotten, others are not: jobs end, and their messages never come again."""

from __future__ import annotations

import json
import os

import pytest

from streams.engine.coverage.shapes import SPARE_SHAPES, Shapes
from tests.engine.coverage.shape_twin import checked, parse
from tests.schemas.records import NOW_MS

# Without the JIT a message takes milliseconds, and a tenth of them takes every branch too.
FEWER = 1 if os.environ.get("NUMBA_DISABLE_JIT", "0") == "0" else 10


def message(job: int) -> bytes:
    return json.dumps(
        {
            "source": "s", "time_ms": NOW_MS, "interval_ms": 1000, "job_id": f"job-{job}", "node": f"node-{job % 9}",
            "gpus": ["a", "b"], "util_ratio": [0.5, 1],
        }
    ).encode()  # fmt: skip


@pytest.mark.skipif(
    os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="two million messages; the JIT is off"
)
def test_shapes_of_jobs_that_ended_are_forgotten() -> None:
    shapes, most = Shapes(), 0
    for ended in range(0, 20 * SPARE_SHAPES, 100):  # a hundred jobs at a time, each for a hundred rounds
        values = [message(job) for job in range(ended, ended + 100)]
        parse(shapes, values * 100)
        most = max(most, len(shapes))
    assert most <= 2 * SPARE_SHAPES
    assert shapes.generation > 5
    assert all(checked(shapes, values))


def test_shapes_that_all_come_stay() -> None:
    shapes = Shapes()
    values = [message(job) for job in range(2 * SPARE_SHAPES)]
    for _ in range(40 // FEWER):
        parse(shapes, values)
    assert (len(shapes), shapes.generation) == (2 * SPARE_SHAPES, 0)


def test_shapes_that_come_now_and_then_stay() -> None:
    shapes = Shapes()
    often, seldom = ([message(job) for job in jobs] for jobs in (range(900), range(900, 1500)))
    parse(shapes, seldom)
    for turn in range(200 // FEWER):
        parse(shapes, often)
        if turn % 7 == 0:
            parse(shapes, seldom)
    assert (len(shapes), shapes.generation) == (1500, 0)


def test_a_few_shapes_are_kept_whether_they_come_or_not() -> None:
    shapes = Shapes()
    parse(shapes, [message(job) for job in range(SPARE_SHAPES)])
    for _ in range(100 // FEWER):
        parse(shapes, [message(0)] * 1000)
    assert (len(shapes), shapes.generation) == (SPARE_SHAPES, 0)
