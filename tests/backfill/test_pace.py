"""The store is left to others for four fifths of the time, three seconds at most in one go."""

from __future__ import annotations

import pytest

from streams.backfill.pace import BackfillPace
from streams.clock import ManualClock


@pytest.mark.parametrize(("worked_ms", "pause_s"), [(0, 0), (250, 1.0), (60_000, 3)])
def test_it_pauses_four_times_as_long_as_the_work_took(worked_ms: int, pause_s: float) -> None:
    clock, pauses = ManualClock(), list[float]()

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        clock.advance(round(seconds * 1000))

    pace = BackfillPace(clock, sleep)
    for _ in range(2):  # its own pause is no work
        clock.advance(worked_ms)
        pace()
    assert pauses == [pause_s, pause_s]
