"""What a curve costs minute by minute is what its windows hold."""

from __future__ import annotations

import pytest

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.windows.curve import Curve
from streams.engine.windows.curves import CurveBook

MINUTE_MS = 60_000


def curve(from_ms: list[int], rates: list[float], lumps: dict[int, float]) -> Curve:
    return Curve(
        job_id="j",
        first_paid_ms=0,
        ended_ms=NEVER_MS,
        unpriced_from_ms=NEVER_MS,
        quoted_nano_per_hour=None,
        steps=[
            (BEGINNING_MS, 0.0, 0.0, False),
            *((at_ms, rate, 0.0, rate > 0) for at_ms, rate in zip(from_ms, rates, strict=True)),
        ],
        holds_ms=0,
        lumps=sorted(lumps.items()),
    )


def test_minutes_of_a_step_a_change_an_end_and_lumps() -> None:
    book = CurveBook()
    book.replace(curve([90_000, 150_000, 200_000], [2.0, 3.0, 0.0], {1: 7.0, 4: 11.0, 9: 100.0}))
    assert book.minutes("j", 0, 5).tolist() == [0.0, 60_007.0, 60_000.0 + 90_000.0, 60_000.0, 11.0]
    assert book.minutes("j", 2, 1).tolist() == [150_000.0]


def test_what_goes_on_costs_in_every_minute_to_come() -> None:
    book = CurveBook()
    book.replace(curve([0], [1.0], {}))
    assert book.minutes("j", 1_000_000, 3).tolist() == [60_000.0] * 3
    with pytest.raises(KeyError):
        book.minutes("k", 0, 1)
