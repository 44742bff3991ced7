"""The measurement of what the SDK costs: each case runs, sends what it should, and says what it measured."""

from __future__ import annotations

import pytest

from loadtest import sdk_cost


@pytest.mark.parametrize(
    ("kind", "fault", "dropped"),
    [
        ("fine", "", 0),
        ("refused", "answered 401", 4),
        ("spool_away", "ConnectionRefusedError: Connection refused", 0),
    ],
)
def test_each_case_is_measured(kind: str, fault: str, dropped: int) -> None:
    found = sdk_cost.measure(kind, steps=20, checkpoint_each=10)
    assert (found["steps"], found["fault"], found["dropped"]) == (20, fault, dropped)
    assert found["call_max_us"] >= found["call_p50_us"] > 0
    assert found["cpu_ratio"] >= found["wall_ratio"] > 0
