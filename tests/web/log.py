"""A small log: what the figures of the API are worked out from by hand."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.command import trainfare

T0_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
ODD_ID = "ö/1 %2F?#é{{7*7}}"
"""A job id that a path must quote."""


def _event(topic: str, at_s: int, **value: object) -> str:
    identity = {"source": "t", "id": f"{topic}-{at_s}-{value.get('job_id', '')}-{value.get('type', '')}"}
    return json.dumps({"topic": topic, "value": {**identity, "time_ms": T0_MS + at_s * 1000, **value}}) + "\n"


def _sample(at_s: int, job_id: str, ratio: float) -> str:
    gpus = {"node": "n2", "job_id": job_id, "interval_ms": 10_000, "gpus": ["0"], "util_ratio": [ratio]}
    return _event("gpu", at_s, **gpus)


LINES = [
    _event(
        "prices", 0, sku="h100", component="gpu", usd="2.50", per="gpu_hour", effective_ms=T0_MS - 1, gpu_type="H100"
    ),
    _event("jobs", 0, job_id="a", type="queued", owner="ada", team="vision", project="p", experiment="e"),
    _event("jobs", 30, job_id="a", type="started", gpu_count=8, nodes={"n1": 8}, gpu_type="H100", cluster="c1"),
    _event("jobs", 180, job_id="a", type="completed"),
    _event("jobs", 200, job_id="b", type="allocated", gpu_count=1, gpu_type="H100", owner="bob", team="speech"),
    _event("jobs", 215, job_id="b", type="started", region="eu-1"),
    *(_sample(at_s, "b", 0.25) for at_s in range(220, 300, 10)),
    _event("jobs", 260, job_id="b", type="failed", reason="out_of_memory"),
    _event("jobs", 300, job_id="b", attempt=2, type="started", gpu_count=2, gpu_type="H100"),
    _event("jobs", 300, job_id="c", type="flies"),
    _event("jobs", 360, job_id=ODD_ID, type="started", gpu_count=2, gpu_type="A100"),
    _event("jobs", 420, job_id=ODD_ID, type="completed"),
    _event("jobs", 600, job_id="z", type="queued", owner="zoe"),
]  # fmt: skip
AS_OF_MS = T0_MS + 600_000
COST_A = "0.833333333"  # 150 s x 8 GPUs at $2.50: rows of 0.166666667 and twice 0.333333333


def write(path: Path) -> Path:
    path.write_text("".join(LINES))
    return path


def replayed(root: Path) -> Path:
    """A new directory with what the log comes to."""
    done = trainfare("replay", write(root / "log.jsonl"), "--data", root / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    return root / "meter"
