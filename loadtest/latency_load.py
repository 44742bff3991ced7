"""The events of a latency run: a steady fleet at a given rate, probes that are looked for, jobs that burn too much.

It must not read a clock or talk to anybody: instants are handed in, events are handed out.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from streams.keys import key_of
from streams.topics import Topic

GPUS = 8
USD_PER_GPU_HOUR = "2.5"
# A runaway ran at its quoted rate, then at sixteen times of it, long enough that the next tick sees both windows.
_BEGAN_BEFORE_MS, _SCALED_BEFORE_MS, _SCALE = 30 * 60_000, 6 * 60_000, 16
_PRICES = (
    {"sku": "h100", "component": "gpu", "usd": USD_PER_GPU_HOUR, "per": "gpu_hour", "gpu_type": "H100"},
    {"sku": "egress", "component": "network", "usd": "0.02", "per": "gib"},
    {"sku": "gets", "component": "storage", "usd": "0.0004", "per": "thousand_requests"},
)


class Event(NamedTuple):
    """One event, ready to be sent."""

    topic: Topic
    key: bytes
    value: bytes


def event(topic: Topic, number: int, at_ms: int, **fields: Any) -> Event:
    """Return an event whose id is its number."""
    body = {"source": "latency", "id": str(number), "time_ms": at_ms, **fields}
    value = json.dumps(body, separators=(",", ":")).encode()
    return Event(topic, key_of(topic, value), value)


def prices(at_ms: int) -> Iterator[Event]:
    """Return what everything costs."""
    for number, price in enumerate(_PRICES):
        yield event(Topic.PRICES, number, at_ms, effective_ms=0, **price)


class Fleet:
    """Jobs of eight GPUs each, on a node each, that say in turn what they do."""

    def __init__(self, jobs: int) -> None:
        self._jobs = jobs
        self._sent = 0

    def started(self, at_ms: int) -> Iterator[Event]:
        """Return the start of every job."""
        for number in range(self._jobs):
            yield self.start(f"job-{number}", at_ms)

    def start(self, job_id: str, at_ms: int, gpus: int = GPUS) -> Event:
        """Return the start of one job."""
        return self._next(
            Topic.JOBS, at_ms, job_id=job_id, type="started", gpu_count=gpus, nodes={f"node-{job_id}": gpus},
            gpu_type="H100", owner="latency", team="latency",
        )  # fmt: skip

    def sample(self, job_id: str, at_ms: int) -> Event:
        """Return a second of eight GPUs' utilisation."""
        gpus = [f"GPU-{number}" for number in range(GPUS)]
        ratios = [0.5 + number / 100 for number in range(GPUS)]
        return self._next(
            Topic.GPU,
            at_ms,
            job_id=job_id,
            node=f"node-{job_id}",
            interval_ms=1_000,
            gpus=gpus,
            util_ratio=ratios,
        )

    def steady(self, at_ms: int) -> Event:
        """Return the next event of the steady load: of a hundred, 90 samples, 5 transfers, 4 reads, 1 heartbeat."""
        number = self._sent
        job_id, kind = f"job-{number % self._jobs}", (number // self._jobs + number) % 100
        if kind < 90:
            return self.sample(job_id, at_ms)
        if kind < 95:
            return self._next(
                Topic.NETWORK, at_ms, job_id=job_id, interval_ms=1_000, bytes=10_000_000, path="cross_zone",
                direction="egress",
            )  # fmt: skip
        if kind < 99:
            return self._next(
                Topic.STORAGE,
                at_ms,
                job_id=job_id,
                interval_ms=1_000,
                op="read",
                requests=100,
                bytes=50_000_000,
            )
        return self._next(Topic.JOBS, at_ms, job_id=job_id, type="heartbeat")

    def probe(self, job_id: str, at_ms: int) -> tuple[Event, Event]:
        """Return a new job and its first sample: both have rows of their own."""
        return self.start(job_id, at_ms), self.sample(job_id, at_ms)

    def runaway(self, job_id: str, now_ms: int) -> tuple[Event, Event]:
        """Return a job that scaled out, undeclared, some minutes ago: `burn_fast` opens at the next tick."""
        gpus = GPUS * _SCALE
        scaled = self._next(
            Topic.JOBS, now_ms - _SCALED_BEFORE_MS, job_id=job_id, type="scaled", gpu_count=gpus,
            nodes={f"node-{job_id}": gpus},
        )  # fmt: skip
        return self.start(job_id, now_ms - _BEGAN_BEFORE_MS), scaled

    def _next(self, topic: Topic, at_ms: int, **fields: Any) -> Event:
        self._sent += 1
        return event(topic, self._sent, at_ms, **fields)
