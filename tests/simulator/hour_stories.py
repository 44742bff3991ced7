"""Jobs and nodes of a team for which rules by the hour hold when the first hour ends; all that is said of them comes in time."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction

from tests.oracle.ledger_rules_jobs import Thresholds
from tests.oracle.model import MINUTE_MS, Json

TEAM = "cedar"
CLUSTER = "c7"
#: Small enough that minutes are enough.
RECORDS: tuple[Json, ...] = (
    {"name": "retries", "rule": "retry_overhead", "thresholds": {"lost_ratio": 0.01, "least_usd": 0.01, "attempts": 1}},
    {"name": "sizes", "rule": "oversized", "thresholds": {"factor": 4, "jobs": 1}},
    {"name": "lengths", "rule": "unusual_length", "thresholds": {"factor": 1.5, "jobs": 1, "least_usd": 0.01}},
)  # fmt: skip
#: The same for the oracle.
THRESHOLDS = Thresholds(
    Fraction(1, 100), 10**7, 1, Fraction(4), 1, Fraction(3, 2), 1, 10**7
)  # fmt: skip

#: (topic, ms after the beginning, event); what happened before is said at the beginning, in order.
Said = tuple[str, int, Json]


def hour_stories(rng: random.Random, *, remembers_hours: bool) -> Iterator[Said]:
    """Draw some; `remembers_hours`: events of more than an hour ago are taken."""
    if rng.random() < 0.4:
        yield from _retry(rng)
    if rng.random() < 0.4:
        yield from _lengths(rng)
    if remembers_hours and rng.random() < 0.6:
        yield from _sizes(rng)
    if rng.random() < 0.25:
        yield from _burst(rng)


def _job(job_id: str, kind: str, at_ms: int, gpus: int, attempt: int = 1) -> Said:
    event = {"job_id": job_id, "type": kind, "attempt": attempt, "team": TEAM, "cluster": CLUSTER}
    return "jobs", at_ms, {**event, "gpu_count": gpus} if kind == "started" else event


def _retry(rng: random.Random) -> Iterator[Said]:
    at_ms = rng.randrange(30_000)
    yield _job("tries-1", "started", at_ms, 4)
    yield _job("tries-1", "failed", at_ms + rng.choice((2_000, 20_000)), 4)
    yield _job("tries-1", "started", at_ms + 22_000, 4, 2)


def _lengths(rng: random.Random) -> Iterator[Said]:
    begin_ms = -4 * MINUTE_MS
    yield _job("long-1", "started", begin_ms, 1)
    yield _job("long-1", "completed", begin_ms + rng.choice((5_000, 70_000, 200_000)), 1)
    yield _job("long-2", "started", rng.randrange(20_000), 1)


def _sizes(rng: random.Random) -> Iterator[Said]:
    """One of an hour before, and one that began six minutes before the hour ends, so that it is judged when it does."""
    begin_ms = -70 * MINUTE_MS
    yield _job("wide-1", "started", begin_ms, 1)
    yield _job("wide-1", "completed", begin_ms + 2 * MINUTE_MS, 1)
    yield _job("wide-2", "started", -5 * MINUTE_MS + rng.randrange(40_000), rng.choice((3, 8)))


def _burst(rng: random.Random) -> Iterator[Said]:
    for number in range(rng.choice((9, 10, 12))):
        node = {"node": f"b{number}", "type": "provisioned", "cluster": CLUSTER, "instance_type": "p9"}
        yield "nodes", 1_000 + number, node
