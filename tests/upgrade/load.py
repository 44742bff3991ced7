"""A steady load of healthy jobs, and one that burns far beyond what it was started with, for workers of two versions at once.

The first hour is dated back, so that windows are full; from then on an event comes at its own time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import orjson

from schemas.durations import HOUR_MS, MINUTE_MS
from tests.chaos.fleet import Event

JOBS: Final = 24
RUNAWAY: Final = "runaway"
_GPUS: Final = 4
_SAMPLE_MS: Final = 5_000
#: Of the runaway: when it is scaled to ten times its size, before now.
_SCALED_MS: Final = 8 * MINUTE_MS


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000


class SteadyLoad:
    """Events of jobs that run, until `end` is called; then each job ends."""

    def __init__(
        self, now_ms: Callable[[], int] = _wall_ms, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        self._now_ms = now_ms
        self._sleep = sleep
        self.begin_ms = now_ms() - HOUR_MS
        self._number = 0
        self._is_ending = False

    def end(self) -> None:
        """Let all jobs end with the next events."""
        self._is_ending = True

    def events(self) -> Iterator[Event]:
        """All of them, in the order of their time."""
        yield from self._prices()
        jobs = [f"job-{number:02}" for number in range(JOBS)]
        for job in jobs:
            yield self._job(
                job, self.begin_ms, "started", gpu_count=_GPUS, owner="ada", team="vision", gpu_type="H100"
            )
        start_ms = self.begin_ms + HOUR_MS // 2
        yield self._job(
            RUNAWAY, start_ms, "started", gpu_count=_GPUS, owner="rob", team="nlp", gpu_type="H100"
        )
        now_ms = self.begin_ms + HOUR_MS
        # Before the first hour, which takes its time: whoever reads a part of it must not take the jobs to be silent since.
        for job in (*jobs, RUNAWAY):
            yield self._job(job, now_ms, "heartbeat")
        scaled = False
        at_ms = self.begin_ms
        while not self._is_ending:
            wait_ms = at_ms - self._now_ms()
            if wait_ms > 0:
                self._sleep(wait_ms / 1000)
            if not scaled and at_ms >= now_ms - _SCALED_MS:
                scaled = True
                yield self._job(RUNAWAY, at_ms, "scaled", gpu_count=10 * _GPUS)
            yield from self._second(jobs, at_ms, 10 * _GPUS if scaled else _GPUS)
            at_ms += _SAMPLE_MS
        for job in (*jobs, RUNAWAY):
            yield self._job(job, at_ms, "completed")

    def _prices(self) -> Iterator[Event]:
        for sku, component, usd, per, match in (
            ("h100", "gpu", "2.50", "gpu_hour", {"gpu_type": "H100"}),
            ("egress", "network", "0.09", "gb", {"path": "internet"}),
        ):
            yield self._event(
                "prices",
                f"{sku}@0",
                self.begin_ms,
                sku=sku,
                component=component,
                usd=usd,
                per=per,
                effective_ms=0,
                **match,
            )

    def _second(self, jobs: list[str], at_ms: int, of_runaway: int) -> Iterator[Event]:
        """A sample of each job, a heartbeat and some traffic of some."""
        for number, job in enumerate(jobs):
            yield self._sample(job, at_ms, _GPUS)
            if (at_ms // _SAMPLE_MS + number) % 12 == 0:
                yield self._job(job, at_ms, "heartbeat")
                amount = {
                    "path": "internet",
                    "direction": "egress",
                    "bytes": 10**8,
                    "interval_ms": _SAMPLE_MS,
                }
                yield self._event("network", job, at_ms, job_id=job, attempt=1, **amount)
        if at_ms >= self.begin_ms + HOUR_MS // 2:
            yield self._sample(RUNAWAY, at_ms, of_runaway)

    def _sample(self, job: str, at_ms: int, gpus: int) -> Event:
        names = [f"g{gpu}" for gpu in range(gpus)]
        sample = {"node": f"n-{job}", "gpus": names, "util_ratio": [0.9] * gpus, "gpu_type": "H100"}
        return self._event("gpu", job, at_ms, job_id=job, attempt=1, interval_ms=_SAMPLE_MS, **sample)

    def _job(self, job: str, at_ms: int, kind: str, **value: Any) -> Event:
        return self._event("jobs", job, at_ms, job_id=job, type=kind, **value)

    def _event(self, topic: str, key: str, time_ms: int, /, **value: Any) -> Event:
        self._number += 1
        about = {"source": "steady", "id": f"e{self._number}", "time_ms": time_ms}
        return Event(topic, key, orjson.dumps({**about, **value}))
