"""A sweep of five trials, and the store of its replay: what the figures of experiments are worked out from by hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.command import trainfare

T0_MS = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
HOUR_S = 3_600
NAME = "lr sweep/ü"
HOSTILE = "<img src=x onerror=alert(1)>\u202egnp"
AS_OF_MS = T0_MS + 3 * HOUR_S * 1_000
#: Name, GPUs, hours until it ends (None: it goes on), accuracy. GPUs cost $3.00 an hour, which each minute divides without a rest.
TRIALS: tuple[tuple[str, int, int | None, float | None], ...] = (
    ("cheap", 1, 1, 0.7),  # $3
    ("good", 2, 1, 0.8),  # $6
    ("dear", 4, None, 0.75),  # $36 so far, behind `good`
    ("best", 2, None, 0.9),  # $19 so far: $1 of it for 10 GiB to the internet
    (HOSTILE, 1, None, None),  # $9 so far, reports nothing
)


def _event(topic: str, at_s: int, **value: object) -> str:
    name = f"{topic}-{at_s}-{value.get('job_id', '')}-{value.get('type', '')}"
    return json.dumps(
        {"topic": topic, "value": {"source": "t", "id": name, "time_ms": T0_MS + at_s * 1_000, **value}}
    )


def _lines() -> list[str]:
    usual: dict[str, Any] = {"owner": "ada", "team": "vision", "experiment": NAME}
    price = {
        "component": "gpu",
        "usd": "3.00",
        "per": "gpu_hour",
        "effective_ms": T0_MS - 1,
        "gpu_type": "H100",
    }
    egress = {
        "component": "network",
        "usd": "0.10",
        "per": "gib",
        "effective_ms": T0_MS - 1,
        "path": "internet",
    }
    events = [(0, _event("prices", 0, sku="h100", **price)), (0, _event("prices", 0, sku="egress", **egress))]
    moved = {"path": "internet", "direction": "egress", "bytes": 10 * 2**30, "interval_ms": 60_000}
    events.append((4_000, _event("network", 4_000, job_id="best", **moved)))
    # The second save does not say how long it took.
    for at_s, took in ((1_800, {"duration_ms": 45_000}), (3_600, {}), (7_200, {"duration_ms": 15_000})):
        events.append((at_s, _event("jobs", at_s, job_id="best", type="checkpointed", **took)))
    for name, gpus, hours, accuracy in TRIALS:
        shape = {"gpu_count": gpus, "nodes": {"n1": gpus}, "gpu_type": "H100"}
        events.append((0, _event("jobs", 0, job_id=name, type="started", **usual, **shape)))
        said = {} if accuracy is None else {"quality": {"accuracy": accuracy, "loss": 1 - accuracy}}
        beats = range(600, (3 if hours is None else hours) * HOUR_S, 600)
        events += [(at_s, _event("jobs", at_s, job_id=name, type="heartbeat", **said)) for at_s in beats]
        if hours is not None:
            events.append((hours * HOUR_S, _event("jobs", hours * HOUR_S, job_id=name, type="completed")))
        else:
            events.append((3 * HOUR_S, _event("jobs", 3 * HOUR_S, job_id=name, type="heartbeat", **said)))
    events.append((0, _event("jobs", 0, job_id="alone", type="queued", owner="zoe")))
    return [line for _, line in sorted(events, key=lambda each: each[0])]


def replayed(root: Path) -> Path:
    """A new directory with the sweep."""
    log = root / "sweep.jsonl"
    log.write_text("\n".join(_lines()) + "\n")
    done = trainfare("replay", log, "--data", root / "meter", "--partitions", 2)
    assert done.code == 0, done.err
    return root / "meter"
