"""Jobs of one cluster that are paid for the whole hour that ends in a run, with samples of their GPUs or without."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tests.oracle.model import MINUTE_MS, Json
from tests.simulator.rare_stories import Said
from tests.simulator.world import EPOCH_MS

CLUSTER = "c5"
#: What the ids of these jobs begin with.
PREFIX = "held-"
_GPUS = ["0", "1"]


def sampled_jobs(rng: random.Random, begin_ms: int = EPOCH_MS) -> Iterator[Said]:
    """The GPUs of the first job have samples; of each other it is drawn which, and whether it is a silent job.

    `begin_ms`: some minutes before the hour ends.
    """
    number = 0

    def said(topic: str, job_id: str, at_ms: int, event: Json) -> Said:
        nonlocal number
        number += 1
        identity = {"source": "held", "id": f"{number}", "time_ms": at_ms, "job_id": job_id, "attempt": 1}
        return topic, job_id, max(at_ms, begin_ms), {**identity, **event}

    price = {"sku": "c5-gpu", "component": "gpu", "per": "gpu_hour", "usd": "3", "cluster": CLUSTER}
    about = {"source": "held", "id": "price", "time_ms": begin_ms, "effective_ms": 0}
    yield "prices", "", begin_ms, {**about, **price}
    for place in range(rng.choice((2, 3))):
        job_id, start_ms = f"{PREFIX}{place}", begin_ms - 70 * MINUTE_MS
        start = {"type": "started", "team": "dove", "cluster": CLUSTER, "gpu_count": len(_GPUS)}
        yield said("jobs", job_id, start_ms, start)
        gpus = rng.choice(([], [], _GPUS[:1], _GPUS)) if place else _GPUS
        if gpus:
            sample = {"node": f"s{place}", "gpus": gpus, "util_ratio": [0.9] * len(gpus)}
            interval_ms = rng.choice((40, 57, 57)) * MINUTE_MS
            yield said("gpu", job_id, begin_ms + rng.randrange(5_000), {**sample, "interval_ms": interval_ms})
        elif rng.random() < 0.3:
            yield said("jobs", job_id, begin_ms - 20 * MINUTE_MS, {"type": "heartbeat"})
