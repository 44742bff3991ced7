"""Room for what is not stored: when reading pauses, and when storing should not wait for its time."""

from __future__ import annotations

import pytest

from streams.worker.ingest.backpressure import BackpressureGate


def test_it_closes_when_full_and_opens_again() -> None:
    backpressure = BackpressureGate(100)
    seen = []
    for waiting_bytes in (0, 99, 100, 99):
        backpressure.update(waiting_bytes)
        seen.append(backpressure.is_open)
    assert seen == [True, True, False, True]


def test_that_it_is_half_full_is_said_once_until_it_is_not() -> None:
    backpressure = BackpressureGate(100)
    assert [backpressure.update(waiting_bytes) for waiting_bytes in (49, 50, 60, 100, 50, 49, 51)] == [
        False, True, False, False, False, False, True,
    ]  # fmt: skip


@pytest.mark.parametrize("max_bytes", [1, 2, 3])
def test_a_small_one_is_half_full_before_it_is_full(max_bytes: int) -> None:
    assert BackpressureGate(max_bytes).update(max_bytes)
