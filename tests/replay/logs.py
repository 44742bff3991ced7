"""Logs to replay, made from a seed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

BEGIN_MS = 1_704_000_000_000
SAMPLE_MS = 10_000


def write_log(
    path: Path,
    jobs: int,
    minutes: int,
    *,
    seed: int = 1,
    first_job: int = 0,
    prices: bool = True,
    one_ends_of: int = 2,
) -> Path:
    """Jobs with samples, traffic and nodes; one of so many jobs ends, the others go on."""
    rng = random.Random(seed)
    lines: list[dict[str, Any]] = []

    def add(topic: str, **value: Any) -> None:
        lines.append({"topic": topic, "value": {"source": f"seed-{seed}", "id": str(len(lines)), **value}})

    if prices:
        for sku, component, usd, per in (
            ("h100", "gpu", "2.5", "gpu_hour"),
            ("egress", "network", "0.09", "gib"),
            ("tools", "license", "0.333333333", "job_hour"),
        ):
            add(
                "prices",
                time_ms=BEGIN_MS,
                sku=sku,
                component=component,
                usd=usd,
                per=per,
                effective_ms=BEGIN_MS,
            )
    names = [f"job-{first_job + number}" for number in range(jobs)]
    for number, name in enumerate(names):
        node = f"node-{name}"
        at = {"time_ms": BEGIN_MS + number}
        add("nodes", node=node, type="provisioned", gpu_count=4, **at)
        add(
            "jobs", job_id=name, type="started", nodes={node: 4}, owner="ann", team=f"team-{number % 3}", **at
        )
    for step in range(minutes * 60_000 // SAMPLE_MS):
        time_ms = BEGIN_MS + (step + 1) * SAMPLE_MS
        for name in names:
            ratios = [round(rng.random(), 3) for _ in range(4)]
            gpus = [f"g{number}" for number in range(4)]
            sample = {"time_ms": time_ms, "interval_ms": SAMPLE_MS, "gpus": gpus, "util_ratio": ratios}
            add("gpu", node=f"node-{name}", job_id=name, **sample)
            if rng.random() < 0.1:
                traffic = {
                    "time_ms": time_ms,
                    "interval_ms": rng.randrange(90_000),
                    "bytes": rng.randrange(10**10),
                }
                add("network", job_id=name, **traffic)
    for name in names[::one_ends_of]:
        add(
            "jobs", job_id=name, type=rng.choice(["completed", "failed"]), time_ms=BEGIN_MS + minutes * 60_000
        )
    path.write_text("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines))
    return path
