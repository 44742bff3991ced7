"""What a latency run looks for, beside its load: new jobs whose rows must come, and jobs that burn too much.

Instants are handed in, events are handed out.
"""

from __future__ import annotations

import json
from typing import Any, Final

from loadtest.soak_load import Event
from streams.keys import key_of
from streams.topics import Topic

GPUS: Final = 8
#: How ids of these jobs begin; they are no part of the load's account.
NAMES: Final = ("probe-", "runaway-")
# A runaway ran at its quoted rate, then at sixteen times of it, long enough that the next tick sees both windows.
_BEGAN_BEFORE_MS, SCALED_BEFORE_MS, _SCALE = 30 * 60_000, 6 * 60_000, 16
#: So long after that the shorter window has six times the expected cost: 16 x + (300 - x) = 6 * 300 s.
CROSSING_MS: Final = 100_000


class Probes:
    """Each event has an id of its own; prices are those of the load, of H100."""

    def __init__(self) -> None:
        self._sent = 0

    def probe(self, job_id: str, at_ms: int) -> tuple[Event, Event]:
        """A new job and its first sample: both have rows of their own."""
        return self._start(job_id, at_ms), self._sample(job_id, at_ms)

    def runaway(
        self, job_id: str, now_ms: int, *, scaled_before_ms: int = SCALED_BEFORE_MS
    ) -> tuple[Event, Event]:
        """A job that scaled out, undeclared, some time ago.

        `burn_fast` opens at the next tick, or CROSSING_MS after it scaled out if that is later.
        """
        gpus = GPUS * _SCALE
        scaled = self._next(
            Topic.JOBS, now_ms - scaled_before_ms, job_id=job_id, type="scaled", gpu_count=gpus,
            nodes={f"node-{job_id}": gpus},
        )  # fmt: skip
        return self._start(job_id, now_ms - _BEGAN_BEFORE_MS), scaled

    def _start(self, job_id: str, at_ms: int) -> Event:
        return self._next(
            Topic.JOBS, at_ms, job_id=job_id, type="started", gpu_count=GPUS, nodes={f"node-{job_id}": GPUS},
            gpu_type="H100", owner="latency", team="latency",
        )  # fmt: skip

    def _sample(self, job_id: str, at_ms: int) -> Event:
        gpus = [f"GPU-{number}" for number in range(GPUS)]
        ratios = [0.5 + number / 100 for number in range(GPUS)]
        return self._next(
            Topic.GPU, at_ms, job_id=job_id, node=f"node-{job_id}", interval_ms=1_000, gpus=gpus,
            util_ratio=ratios,
        )  # fmt: skip

    def _next(self, topic: Topic, at_ms: int, **fields: Any) -> Event:
        self._sent += 1
        body = {"source": "latency", "id": str(self._sent), "time_ms": at_ms, **fields}
        value = json.dumps(body, separators=(",", ":")).encode()
        return Event(topic, key_of(topic, value), value)
