"""Jobs for which rules hold that drawn fleets hardly ever break: GPUs that idle for long, spot that became on-demand."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.oracle.model import MINUTE_MS, Json
from tests.simulator.world import EPOCH_MS

_CLUSTER = {"cluster": "c6"}
#: (topic, key of the partition, append time, event)
Said = tuple[str, str, int, Json]


def rare_stories(rng: random.Random, span_ms: int, job_horizon_ms: int) -> Iterator[Said]:
    """Draw some, rarely."""
    number = 0

    def said(topic: str, key: str, at_ms: int, event: Json) -> Said:
        nonlocal number
        number += 1
        identity = {"source": "rare", "id": f"{number}", "time_ms": at_ms}
        return topic, key, max(at_ms, EPOCH_MS), {**identity, **event}

    if rng.random() < 0.12 and job_horizon_ms > 45 * MINUTE_MS:
        job = {"job_id": "idle", "attempt": 1}
        start_ms = EPOCH_MS - 40 * MINUTE_MS
        yield said("jobs", "idle", start_ms, {**job, "type": "started", "gpu_count": 2, **_CLUSTER})
        sample = {
            "node": "h1",
            "gpus": ["0", "1"],
            "util_ratio": [0.05, 0.0],
            "interval_ms": 38 * MINUTE_MS,
            **job,
        }
        yield said("gpu", "idle", EPOCH_MS + rng.randrange(5_000), sample)
    if rng.random() < 0.12:
        for purchase, usd in (("spot", "2"), ("on_demand", "7.5")):
            price = {"sku": f"c6-{purchase}", "component": "gpu", "per": "gpu_hour", "usd": usd}
            match = {"purchase": purchase, **_CLUSTER}
            yield said("prices", "", EPOCH_MS, {**price, "effective_ms": 0, **match})
        at_ms = EPOCH_MS + rng.randrange(span_ms // 2)
        for attempt, purchase in ((1, "spot"), (2, "on_demand")):
            job = {"job_id": "basis", "attempt": attempt, **_CLUSTER}
            yield said(
                "jobs", "basis", at_ms, {**job, "type": "started", "gpu_count": 4, "purchase": purchase}
            )
            if attempt == 1:
                at_ms += rng.choice((1_000, 12_000))
                yield said("jobs", "basis", at_ms, {**job, "type": "preempted"})
                at_ms += rng.choice((1_000, 12_000))
