"""Known cases of jobs that broke off and of jobs that are not heard of, worked by hand."""

from __future__ import annotations

from tests.oracle.cases import T0, gpu, job, price
from tests.oracle.model import MINUTE_MS, Line
from tests.oracle.test_oracle_judge import judged, of

M = MINUTE_MS
S = 1000


def broken_off(*next_lines: Line, end: str = "preempted") -> list[int | None]:
    """When a page ends, in seconds since its job broke off: nine times the GPUs for 5 min, then the end."""
    lines = [
        price("p", "2"),
        job("j", "started", T0, gpu_count=8),
        job("j", "scaled", T0 + 60 * M, gpu_count=72),
        job("j", end, T0 + 65 * M),
        *next_lines,
    ]
    alerts = [a for a in judged(*lines, until_ms=90 * M) if a.rule == "burn_fast"]
    assert all(a.changes[0][1] == "firing" and len(a.changes) <= 2 for a in alerts)
    assert of(alerts, "burn_fast")[0][0] == 60 * M + 190 * S
    return [None if a.resolved_ms is None else (a.resolved_ms - T0 - 65 * M) // S for a in alerts]


def test_a_job_that_broke_off_has_ended_when_no_next_attempt_came_for_ten_minutes() -> None:
    # From 5 min on nothing is expected of the shorter window, and nothing is judged.
    assert broken_off() == broken_off(end="failed") == [600]
    assert broken_off(end="completed") == broken_off(end="cancelled") == [0]


def test_the_next_attempt_decides() -> None:
    assert broken_off(job("j", "started", T0 + 66 * M, attempt=2)) == [None]
    assert broken_off(job("j", "started", T0 + 74 * M, attempt=2)) == [None]
    # Of 240 paid seconds s are at the first rate: 9 - 8 s / 240 < 4.8 (0.8 x 6) from s = 126 on.
    assert broken_off(job("j", "started", T0 + 66 * M, attempt=2, gpu_count=8)) == [60 + 130]
    assert broken_off(
        job("j", "started", T0 + 66 * M, attempt=2), job("j", "completed", T0 + 67 * M, attempt=2)
    ) == [120]


def test_an_attempt_that_waits_decides_nothing() -> None:
    queued = job("j", "queued", T0 + 66 * M, attempt=2)
    assert broken_off(queued) == [600]
    assert broken_off(queued, job("j", "started", T0 + 74 * M, attempt=2)) == [None]


def test_a_running_job_that_is_not_heard_of() -> None:
    lines = [
        price("p", "2"),
        job("j", "started", T0, gpu_count=8),
        job("j", "heartbeat", T0 + 4 * M),
        job("j", "heartbeat", T0 + 5 * M),
        job("j", "suspended", T0 + 20 * M),
        job("j", "resumed", T0 + 40 * M),
        gpu("j", T0 + 55 * M, M, {"g0": 1.0}),
        job("j", "completed", T0 + 90 * M),
        job("never", "started", T0, gpu_count=1),
    ]
    # While it is suspended nothing need come; 10 min after the sample it fires again, which is the same episode.
    assert of(judged(*lines, until_ms=100 * M), "silent_job") == [
        (15 * M, 20 * M),
        (50 * M, 90 * M),
    ]
