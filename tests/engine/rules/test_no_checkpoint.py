"""`no_checkpoint`: time in which a job is suspended saves nothing, and loses nothing."""

from __future__ import annotations

import pytest

from schemas.durations import HOUR_MS
from streams.engine.rules.no_checkpoint import ran_for_ms
from streams.engine.timeline.attempts import OPEN_MS

_LONGEST_MS = 6 * HOUR_MS


@pytest.mark.parametrize(
    ("running", "at_ms"),
    [
        ([(0, OPEN_MS)], 6 * HOUR_MS),
        ([(0, 4 * HOUR_MS), (20 * HOUR_MS, OPEN_MS)], 22 * HOUR_MS),
        ([(0, 4 * HOUR_MS), (20 * HOUR_MS, 22 * HOUR_MS)], None),
        ([(0, 6 * HOUR_MS)], None),
        ([], None),
    ],
)
def test_only_running_counts(running: list[tuple[int, int]], at_ms: int | None) -> None:
    assert ran_for_ms(running, _LONGEST_MS) == at_ms
