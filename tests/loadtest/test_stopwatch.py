"""A stopwatch times what ends between its restart and its stop."""

from __future__ import annotations

from loadtest.stopwatch import Stopwatch


def timed(watch: Stopwatch, times: int) -> None:
    for _ in range(times):
        with watch.running():
            pass


def test_what_ends_before_the_restart_or_after_the_stop_does_not_count() -> None:
    watch = Stopwatch()
    timed(watch, 3)
    assert watch.figures()["count"] == 3
    watch.restart()
    assert watch.figures() == {"count": 0, "wall_s": 0.0, "cpu_s": 0.0}
    timed(watch, 2)
    watch.stop()
    timed(watch, 4)
    assert watch.figures()["count"] == 2
    watch.restart()
    timed(watch, 1)
    assert watch.figures()["count"] == 1
