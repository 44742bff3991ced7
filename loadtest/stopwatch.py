"""Durations of something that happens often: how many, how long in all, the middle and the end of them."""

from __future__ import annotations

import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

_SCHEDSTAT = Path("/proc/thread-self/schedstat")


class Stopwatch:
    """Any thread may add to it."""

    def __init__(self) -> None:
        self._wall_s = array("d")
        self._cpu_s = array("d")
        self._counts = True

    def restart(self) -> None:
        """Forget what was timed so far."""
        self._wall_s, self._cpu_s, self._counts = array("d"), array("d"), True

    def stop(self) -> None:
        """Leave out what ends from now on."""
        self._counts = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Time the block, on the wall and of this thread's CPU."""
        began_s, cpu_s = time.perf_counter(), time.thread_time()
        try:
            yield
        finally:
            self._add(time.perf_counter() - began_s, time.thread_time() - cpu_s)

    def _add(self, wall_s: float, cpu_s: float) -> None:
        if self._counts:
            self._wall_s.append(wall_s)
            self._cpu_s.append(cpu_s)

    def figures(self) -> dict[str, float]:
        """Count, seconds in all, and of one: median, p99 and longest, in ms."""
        if not self._wall_s:
            return {"count": 0, "wall_s": 0.0, "cpu_s": 0.0}
        ordered = sorted(self._wall_s)
        return {
            "count": len(ordered),
            "wall_s": sum(ordered),
            "cpu_s": sum(self._cpu_s),
            "median_ms": 1000 * percentile(ordered, 50),
            "p99_ms": 1000 * percentile(ordered, 99),
            "max_ms": 1000 * ordered[-1],
        }


def run_delay_s() -> float:
    """How long this thread has been ready to run while others had the cores; 0 where the kernel does not say."""
    try:
        return int(_SCHEDSTAT.read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def percentile(ordered: Sequence[float], percent: float) -> float:
    """One of the values, sorted, none between two: so many percent are not above it."""
    return ordered[max(0, -(-int(len(ordered) * percent * 10) // 1000) - 1)]
