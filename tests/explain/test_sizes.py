"""The sizes of attempts from the minutes of the ledger: when they changed, without minutes that have two sizes."""

from __future__ import annotations

from typing import Any

from streams.explain.incident.sizes import AttemptSize, sizes_of
from streams.explain.incident.timeline import attempts_of

MINUTE_MS = 60_000
ROW: dict[str, Any] = {
    "job_id": "run", "attempt": 1, "state": "running", "reason": "", "started_ms": 20_000, "ended_ms": None, "gpu_count": 64.0,
    "gpu_type": "H100", "purchase": "", "region": "",
}  # fmt: skip


def changes(*given: tuple[int, float]) -> list[dict[str, Any]]:
    return [
        {"job_id": "run", "attempt": 1, "minute_ms": minute * MINUTE_MS, "gpus": gpus}
        for minute, gpus in given
    ]


def sizes(*given: tuple[int, float], until: int = 100) -> list[AttemptSize]:
    return sizes_of(changes(*given), until * MINUTE_MS)["run", 1]


def test_a_change_within_a_minute_is_at_the_second_that_its_average_says() -> None:
    # From 8 to 64 after 45 s of minute 10: 8 * 0.75 + 64 * 0.25 on average.
    assert sizes((0, 5.333), (1, 8), (10, 22), (11, 64)) == [
        AttemptSize(MINUTE_MS, 8),
        AttemptSize(10 * MINUTE_MS + 45_000, 64),
    ]


def test_a_change_between_minutes_and_one_back_are_two() -> None:
    assert sizes((0, 8), (10, 64), (20, 8)) == [
        AttemptSize(0, 8),
        AttemptSize(10 * MINUTE_MS, 64),
        AttemptSize(20 * MINUTE_MS, 8),
    ]


def test_the_minute_in_which_it_ends_is_no_size() -> None:
    assert sizes((0, 8), (30, 3.2), until=31) == [AttemptSize(0, 8)]


def test_the_timeline_has_the_size_at_the_start_and_the_change() -> None:
    known = sizes_of(changes((0, 5.333), (1, 8), (10, 64)), 100 * MINUTE_MS)
    found = [(each.at_ms, each.what, each.detail) for each in attempts_of([ROW], 0, 100 * MINUTE_MS, known)]
    assert sorted(found) == [
        (20_000, "attempt 1 started", "8 GPUs, H100"),
        (10 * MINUTE_MS, "attempt 1 scaled", "from 8 GPUs to 64 GPUs"),
    ]
    (alone,) = attempts_of([ROW], 0, 100 * MINUTE_MS, {})
    assert alone.detail == "64 GPUs, H100"
