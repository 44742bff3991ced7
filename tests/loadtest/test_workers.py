"""Several workers on one log: when everything is stored, whoever stored it, and what it took of all of them."""

from __future__ import annotations

from typing import Any

import pytest

from loadtest import workers


def first(at_s: float, cpu_s: float) -> dict[str, Any]:
    return {"first": {"at_s": at_s, "cpu_s": cpu_s}}


def stored(at_s: float, cpu_s: float, **ends: int) -> dict[str, Any]:
    places = {f"gpu/{place[1:]}": offset for place, offset in ends.items()}
    return {"stored": {"at_s": at_s, "cpu_s": cpu_s, "next": places | {"jobs/0": 50}}}


ONE = [first(10, 2), stored(11, 3, p0=5, p1=2), stored(13, 4, p0=10)]
OTHER = [{"parts": {}}, first(11, 1), stored(12, 1.5, p1=6), stored(14, 2, p1=10), stored(20, 9, p1=10)]


def test_a_partition_that_moved_counts_once() -> None:
    assert workers.stored_at_s([ONE], 12) == 13
    assert workers.stored_at_s([ONE], 13) is None
    assert workers.stored_at_s([ONE, OTHER], 16) == 13
    assert workers.stored_at_s([ONE, OTHER], 20) == 14


def test_cpu_is_that_of_all_until_the_end() -> None:
    found = workers.figures([ONE, OTHER, []], 20, 160)
    assert found["wall_s"] == 4
    assert found["messages_per_s"] == 5
    assert found["cpu_s_per_million_samples"] == pytest.approx((2 + 1) / 160 * 1e6)
    text = workers.report([found, found | {"samples_per_s": 80.0, "workers": 2}])
    assert "3 worker(s): 4.00 s, 40 samples/s (1.00x)" in text
    assert "2 worker(s): 4.00 s, 80 samples/s (2.00x)" in text


def test_figures_of_half_a_run_are_none() -> None:
    with pytest.raises(ValueError, match="not everything was stored"):
        workers.figures([ONE], 20, 160)
