"""The incidents of the labelled fleet: how each begins, what goes on in it, and how it is put right."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from loadtest.labelled import market
from loadtest.labelled.job import LabelledJob
from schemas.durations import HOUR_MS, MINUTE_MS

#: How often a collector says how many bytes moved.
_READ_EVERY_MS: Final = 5 * MINUTE_MS


class IncidentKind(NamedTuple):
    """What happens to a job from an instant on, for how long at least and at most, and what kind of job it is."""

    begin: Callable[[LabelledJob, int, int], None]  # job, from_ms, until_ms
    least_ms: int
    most_ms: int
    fixed: Mapping[str, Any]


def _by_factor(factor: float) -> Callable[[LabelledJob, int, int], None]:
    """GPUs and CPUs become so many times as many, undeclared, and are put right at the end."""

    def begin(job: LabelledJob, from_ms: int, until_ms: int) -> None:
        def change(at_ms: int, to: float) -> None:
            job.factor = to
            job.scale_to(at_ms)

        def first(at_ms: int) -> None:
            if job.running:
                change(at_ms, factor)
            else:
                job.at(at_ms + MINUTE_MS, first)

        job.at(from_ms, first)
        job.at(until_ms, lambda at_ms: change(at_ms, 1.0))
        _without_interrupts(job, from_ms - 30 * MINUTE_MS, from_ms + 5 * MINUTE_MS)

    return begin


def _idle(job: LabelledJob, from_ms: int, until_ms: int) -> None:
    """The GPUs are held without a process, or next to nothing is done on them."""
    usual = job.busy
    most = job.rng.choice((0.0, 0.1))

    def use(ratio: Callable[[], float]) -> Callable[[int], None]:
        def change(_at_ms: int) -> None:
            job.busy = ratio

        return change

    job.at(from_ms, use(lambda: job.rng.uniform(0, most)))
    job.at(until_ms, use(usual))
    _without_interrupts(job, from_ms - 30 * MINUTE_MS, until_ms)


def _retry_loop(job: LabelledJob, from_ms: int, until_ms: int) -> None:
    """Each attempt fails after some minutes, and the next begins soon."""
    reason = job.rng.choice(("out_of_memory", "user_error", "node_failure"))
    length_ms = job.rng.randrange(2 * MINUTE_MS, 13 * MINUTE_MS)

    def fail(at_ms: int) -> None:
        if not job.running:
            job.at(at_ms + 5_000, fail)
        elif at_ms < until_ms:
            job.restart(at_ms, "failed", reason, job.rng.randrange(15_000, 90_000))
            job.at(at_ms + int(length_ms * job.rng.uniform(0.8, 1.25)), fail)

    job.at(from_ms, fail)
    _without_interrupts(job, from_ms - HOUR_MS, until_ms + HOUR_MS)


def _traffic(job: LabelledJob, from_ms: int, until_ms: int) -> None:
    """Data are read from another region, for more than the job itself costs."""
    usd_per_hour = max(job.usd_per_hour * job.rng.uniform(1.5, 5), 8)
    gb = usd_per_hour * _READ_EVERY_MS / HOUR_MS / market.CROSS_REGION_USD_PER_GB

    def read(at_ms: int) -> None:
        job.say(
            "network", at_ms, attempt=job.attempt, interval_ms=_READ_EVERY_MS, path="cross_region",
            direction="ingress", region="us-west-2", dst_region=job.spec.region,
            bytes=int(gb * 1e9 * job.rng.uniform(0.8, 1.2)),
        )  # fmt: skip
        if at_ms + _READ_EVERY_MS <= until_ms:
            job.at(at_ms + _READ_EVERY_MS, read)

    job.at(from_ms + _READ_EVERY_MS, read)
    _without_interrupts(job, from_ms - 30 * MINUTE_MS, until_ms)


def _fallback(job: LabelledJob, from_ms: int, _until_ms: int) -> None:
    """A spot job is preempted and goes on, on demand."""

    def change(at_ms: int) -> None:
        job.purchase = "on_demand"
        job.restart(at_ms, "preempted", "spot_reclaim", job.rng.randrange(MINUTE_MS, 5 * MINUTE_MS))

    job.at(from_ms, change)
    _without_interrupts(job, from_ms - HOUR_MS, job.spec.end_ms)


def _without_interrupts(job: LabelledJob, from_ms: int, until_ms: int) -> None:
    """Let nothing else happen to its attempts meanwhile."""

    def may(value: bool) -> Callable[[int], None]:
        def change(_at_ms: int) -> None:
            job.interrupts = value

        return change

    job.at(max(from_ms, job.spec.begin_ms), may(False))
    job.at(until_ms, may(True))


_STEADY: Final[Mapping[str, Any]] = {"rescales": 0}

KINDS: Final[Mapping[str, IncidentKind]] = {
    "3x": IncidentKind(_by_factor(3), 2 * HOUR_MS, 3 * HOUR_MS, _STEADY),
    "10x": IncidentKind(_by_factor(10), 30 * MINUTE_MS, HOUR_MS, {**_STEADY, "heard": ""}),
    "1.5x_12h": IncidentKind(_by_factor(1.5), 12 * HOUR_MS, 12 * HOUR_MS + MINUTE_MS, _STEADY),
    # Jobs of so many GPUs that an hour of nothing is worth a message.
    "idle": IncidentKind(
        _idle, 75 * MINUTE_MS, 2 * HOUR_MS, {**_STEADY, "heard": "samples", "gpus": 16, "gpu_type": "H100"}
    ),
    "retry_loop": IncidentKind(_retry_loop, HOUR_MS, 2 * HOUR_MS, _STEADY),
    "cross_region": IncidentKind(_traffic, 2 * HOUR_MS, 3 * HOUR_MS, _STEADY),
    "spot_fallback": IncidentKind(_fallback, 2 * HOUR_MS, 4 * HOUR_MS, {**_STEADY, "purchase": "spot"}),
}


def length_ms(kind: IncidentKind, rng: random.Random) -> int:
    """Draw how long an incident lasts."""
    return rng.randrange(kind.least_ms, kind.most_ms)
