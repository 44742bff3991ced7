"""A log of nodes: one that nobody uses, one that is used in part, one without GPUs, and a job that loses work."""

from __future__ import annotations

import json
from pathlib import Path

T0_MS = 1_772_323_200_000  # 2026-03-01 00:00:00 UTC
HOUR_MS = 3_600_000
END_HOUR = 26


def event(topic: str, hour: float, **value: object) -> str:
    at_ms = T0_MS + round(hour * HOUR_MS)
    identity = {
        "source": "t",
        "id": f"{topic}-{hour}-{value.get('node')}-{value.get('type')}",
        "time_ms": at_ms,
    }
    return json.dumps({"topic": topic, "value": {**identity, **value}}) + "\n"


#: Two nodes of two GPUs at $3 and one without a GPU at $0.60 an hour, for 26 hours. Job a has both GPUs of n1 for two
#: hours, at a quarter of their capacity; b loses an hour of a GPU of n1. Work without a job is seen on n1 for a minute.
LINES = [
    event("prices", 0, sku="gpu", component="gpu", usd="3", per="gpu_hour", effective_ms=0),
    event("prices", 0, sku="cpu", component="compute", usd="0.6", per="instance_hour", effective_ms=0),
    event("nodes", 0, node="n1", type="provisioned", gpu_count=2, team="red", gpu_type="H100", cluster="c"),
    event("nodes", 0, node="n2", type="provisioned", gpu_count=2, gpu_type="H100", cluster="c"),
    event("nodes", 0, node="c1", type="provisioned", team="red"),
    event("jobs", 1, job_id="a", type="started", nodes={"n1": 2}, gpu_count=2, owner="ada", team="red"),
    *(
        event("gpu", 1 + minute / 60, node="n1", job_id="a", gpus=["0", "1"], interval_ms=60_000, util_ratio=[0.25, 0.25])
        for minute in range(1, 120)
    ),
    event("jobs", 3, job_id="a", type="completed"),
    event("jobs", 4, job_id="b", type="started", nodes={"n1": 1}, gpu_count=1, owner="bob", team="blue"),
    event("jobs", 5, job_id="b", type="failed", reason="node_failure"),
    event("jobs", 5.5, job_id="b", attempt=2, type="started", nodes={"n1": 1}, gpu_count=1, owner="bob", team="blue"),
    event("jobs", 6.5, job_id="b", type="completed"),
    event("gpu", 10, node="n1", gpus=["1"], interval_ms=60_000, util_ratio=[0.5]),
    *(event("nodes", END_HOUR, node=node, type="terminated") for node in ("n1", "n2", "c1")),
]  # fmt: skip


def write(path: Path) -> Path:
    path.write_text("".join(LINES))
    return path
