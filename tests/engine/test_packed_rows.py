"""Rows that are packed between two checkpoints, and asked for again: what is stored stays the oracle's."""

from __future__ import annotations

import random

import pytest

from streams.engine.coverage import packed_rows
from tests.engine.test_state_bounds import fed
from tests.oracle.cases import T0, gpu, job, price
from tests.oracle.compute import compute
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line
from tests.property.compare import assert_same

H, M = HOUR_MS, MINUTE_MS


@pytest.fixture(params=[(0, -20), (5, 0), (30, 10)])
def _packing(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """At once, sooner, and as it is."""
    monkeypatch.setattr(packed_rows, "_EVERY", request.param[0])
    monkeypatch.setattr(packed_rows, "_YOUNG", request.param[1])


def hours(seed: int) -> list[Line]:
    """A job that its timeline pays and two that samples pay, for hours; late ones, and prices for what is old."""
    chance = random.Random(seed)
    lines = [price("p", "2"), job("paid", "started", T0, gpu_count=2)]
    for minute in range(3, 6 * 60, 3):
        at_ms = T0 + minute * M
        lines += [
            gpu(name, at_ms + chance.randrange(40_000), 3 * M, {"a": chance.random(), "b": 0.5})
            for name in ("paid", "one", "two")
        ]
        if chance.random() < 0.1:  # of a GPU that was not seen before, or was, and of another node
            late_ms = chance.randrange(T0 + 2 * M, at_ms)
            name, which = chance.choice(["paid", "one", "two"]), chance.choice(["a", f"new{minute}"])
            lines.append(gpu(name, late_ms, chance.choice([M, 20 * M, H]), {which: 1.0}))
        if minute in (123, 300):
            lines.append(price("p", str(minute), effective_ms=T0 + chance.randrange(minute) * M + 30_000))
        if minute == 240:
            lines.append(job("two", "started", T0 + 200 * M, gpu_count=2))  # it was not metered after all
    lines.append(job("paid", "completed", T0 + 6 * H))
    return lines


@pytest.mark.usefixtures("_packing")
@pytest.mark.parametrize("seed", [1, 2])
def test_hours_with_late_samples_and_prices_are_the_oracles(seed: int) -> None:
    lines = hours(seed)
    machine = fed(lines, 20)
    assert_same(machine.tables(), compute(lines))
    assert machine.shards[0].coverage.packed_bytes > 0
