"""One full valid record of each topic, and the smallest ones."""

from __future__ import annotations

import json
from typing import Any

from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from schemas.reasons import Reason

NOW_MS = 1_760_000_000_000

Record = dict[str, Any]
Case = tuple[str, Record, Reason, str]  # topic, changes to its full record, and the refusal they lead to

FULL: dict[str, Record] = {
    "jobs": {
        "id": "e1",
        "source": "slurm",
        "time_ms": NOW_MS,
        "job_id": "llama-42",
        "attempt": 2,
        "type": "started",
        "gpu_count": 8.5,
        "nodes": {"node-1": 8, "node-2": 0.5},
        "cloud": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "cluster": "a",
        "instance_type": "p5.48xlarge",
        "gpu_type": "H100",
        "account": "123",
        "purchase": "spot",
        "instance_count": 2,
        "cpu_count": 96.5,
        "memory_gib": 512.125,
        "owner": "ada",
        "team": "nlp",
        "project": "llama",
        "experiment": "lr-sweep",
        "gpus_requested": 16,
        "run_id": "llama-7b-a",
        "work_dir": "/home/ada/llama",
        "labels": {"stage": "pretraining", "größe": "70b"},
        "reason": "spot_reclaim",
        "holds_gpus": True,
        "expected_usd_per_hour": "98.32",
        "budget": {"usd": "5000", "gpu_hours": 1000, "wall_clock_hours": 72.5, "action": "checkpoint"},
        "deadline_ms": NOW_MS + 10**9,
        "quality": {"loss": -1.5, "accuracy": 0.75},
        "progress": {"step": 12000, "tokens": 3.5e9},
        "duration_ms": 42_000,
    },
    "gpu": {
        "id": "g1",
        "source": "dcgm/node-1",
        "time_ms": NOW_MS,
        "node": "node-1",
        "job_id": "llama-42",
        "attempt": 1,
        "interval_ms": 1000,
        "gpus": ["GPU-a", "GPU-b"],
        "util_ratio": [0.5, 1],
        "sm_ratio": [0.25, 0.5],
        "tensor_ratio": [0.0, 0.125],
        "memory_used_mib": [40_000, 70_000.5],
        "power_w": [350, 699.5],
        "gpu_type": "H100",
        "purchase": "on_prem",
    },
    "network": {
        "id": "n1",
        "source": "flow-logs",
        "time_ms": NOW_MS,
        "job_id": "llama-42",
        "attempt": 1,
        "interval_ms": 60_000,
        "bytes": 123_456_789,
        "path": "cross_region",
        "direction": "egress",
        "cloud": "aws",
        "region": "us-east-1",
        "dst_region": "eu-west-1",
    },
    "storage": {
        "id": "s1",
        "source": "s3",
        "time_ms": NOW_MS,
        "job_id": "llama-42",
        "attempt": 1,
        "interval_ms": 0,
        "op": "read",
        "requests": 1000,
        "bytes": 2**53,
        "storage_class": "standard",
        "cloud": "aws",
        "region": "us-east-1",
    },
    "nodes": {
        "id": "k1",
        "source": "karpenter",
        "time_ms": NOW_MS,
        "node": "node-1",
        "type": "provisioned",
        "gpu_count": 8,
        "cluster": "a",
        "gpu_type": "H100",
    },
    "prices": {
        "id": "p1",
        "source": "list",
        "time_ms": NOW_MS,
        "sku": "h100-spot",
        "component": "gpu",
        "usd": "2.123456789",
        "per": "instance_hour",
        "gpus": 8,
        "effective_ms": NOW_MS + 10**10,
        "gpu_type": "H100",
        "purchase": "spot",
        "team": None,
    },
    "controls": {
        "id": "c1",
        "source": "cli",
        "time_ms": NOW_MS,
        "kind": "budget",
        "name": "nlp",
        "subject": "team",
        "usd": "10000",
        "gpu_hours": 5000,
        "wall_clock_hours": 10.5,
        "period": "month",
        "action": "notify",
    },
}

REQUIRED: dict[str, tuple[str, ...]] = {
    "jobs": ("id", "source", "time_ms", "job_id", "type"),
    "gpu": ("source", "time_ms", "node", "interval_ms", "gpus", "util_ratio"),
    "network": ("id", "source", "time_ms", "job_id", "interval_ms", "bytes"),
    "storage": ("id", "source", "time_ms", "job_id", "interval_ms", "op"),
    "nodes": ("id", "source", "time_ms", "node", "type"),
    "prices": ("id", "source", "time_ms", "sku", "component", "usd", "per", "effective_ms"),
    "controls": ("id", "source", "time_ms", "kind", "name"),
}


def record(topic: str, **changes: Any) -> Record:
    """The full record of a topic with some fields changed; `...` removes one."""
    changed = {**FULL[topic], **changes}
    return {name: value for name, value in changed.items() if value is not ...}


def decoded(topic: str, value: object) -> Event | Invalid:
    """Decode an object (as JSON) or bytes, five minutes before anything would be of the future."""
    raw = value if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False).encode()
    return decode(topic, raw, (), NOW_MS + 300_000)


def refused(topic: str, value: object) -> Invalid:
    """Decode what must be refused."""
    result = decoded(topic, value)
    assert isinstance(result, Invalid), result
    return result
