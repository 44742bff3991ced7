"""A fleet's event file with everything in it: every topic, late prices, retries, refused and repeated records.

Made from a seed; it must not know how anything is metered.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

BEGIN_MS = 1_704_067_200_000
MINUTE_MS = 60_000
JOBS = 60
MINUTES = 40
#: Jobs that go on are paid up to here.
AS_OF_MS = BEGIN_MS + 2 * MINUTES * MINUTE_MS + 1_234

Json = dict[str, Any]


class _Log:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.lines: list[tuple[int, Json | str]] = []

    def add(self, topic: str, time_ms: int, at: int | None = None, /, **value: Any) -> None:
        """One event; it stands in the log `at` an instant (default: its own time)."""
        event = {"source": "fleet", "id": f"e{len(self.lines)}", "time_ms": time_ms, **value}
        self.lines.append((time_ms if at is None else at, {"topic": topic, "value": event}))


def write_fleet(path: Path, seed: int = 7, *, jobs: int = JOBS) -> Path:
    """Write the log in the order in which its events came."""
    log = _Log(seed)
    _prices(log)
    for number in range(jobs):
        _job(log, number)
    _noise(log)
    log.lines.sort(key=lambda line: line[0])
    path.write_text("".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for _, x in log.lines))
    return path


def _prices(log: _Log) -> None:
    for sku, component, usd, per, named in (
        ("h100", "gpu", "6.88", "gpu_hour", {"gpu_type": "H100"}),
        ("p4d", "gpu", "21.9576", "instance_hour", {"gpus": 8, "gpu_type": "A100"}),
        ("spot", "gpu", "2.123456789", "gpu_hour", {"gpu_type": "H100", "purchase": "spot"}),
        ("host", "compute", "0.05", "vcpu_hour", {}),
        ("orch", "overhead", "0.01", "job_hour", {}),
        ("tool", "license", "0.333333333", "gpu_hour", {"team": "red"}),
        ("egress", "network", "0.09", "gb", {"path": "internet"}),
        ("put", "storage", "0.005", "thousand_requests", {"op": "write"}),
        ("disk", "storage", "0.023", "gib_month", {"op": "stored"}),
    ):
        log.add(
            "prices",
            BEGIN_MS,
            0,
            sku=sku,
            component=component,
            usd=usd,
            per=per,
            effective_ms=0,
            **named,
        )
    middle_ms = BEGIN_MS + MINUTES * MINUTE_MS // 2
    # A price that comes long after the usage it prices, effective inside a minute.
    log.add(
        "prices", middle_ms, BEGIN_MS + 2 * MINUTES * MINUTE_MS, sku="h100", component="gpu", usd="5.5",
        per="gpu_hour", effective_ms=middle_ms - 12_345, gpu_type="H100",
    )  # fmt: skip


def _job(log: _Log, number: int) -> None:
    rng, job_id, node = log.rng, f"job-{number:03}", f"node-{number % 20:02}"
    begin_ms = BEGIN_MS + rng.randrange(5 * MINUTE_MS)
    end_ms = begin_ms + rng.randrange(10, MINUTES) * MINUTE_MS + rng.randrange(MINUTE_MS)
    gpus = rng.choice((1, 2, 4, 8))
    fields = {
        "gpu_type": rng.choice(("H100", "A100", "unknown")),
        "purchase": rng.choice(("spot", "on_demand")),
    }
    about = {"job_id": job_id, "owner": rng.choice(("ann", "bob")), "team": rng.choice(("red", "blue"))}
    if number < 20:
        log.add("nodes", begin_ms, node=node, type="provisioned", gpu_count=8, **fields)
    if number % 5:  # every fifth is known by its samples alone
        log.add("jobs", begin_ms - 30_000, **about, type="queued", cpu_count=rng.choice((0, 16)), **fields)
        log.add("jobs", begin_ms, job_id=job_id, type="allocated", nodes={node: gpus})
        log.add("jobs", begin_ms + 45_500, job_id=job_id, type="started")
        if number % 3 == 0:
            middle_ms = (begin_ms + end_ms) // 2
            log.add("jobs", middle_ms - 90_000, job_id=job_id, type="checkpointed")
            log.add("jobs", middle_ms, job_id=job_id, type="preempted", reason="spot_reclaim")
            log.add("jobs", middle_ms + 30_000, job_id=job_id, attempt=2, type="allocated")
            log.add("jobs", middle_ms + 60_001, job_id=job_id, attempt=2, type="started")
        if number % 7:  # the others go on
            attempt = 2 if number % 3 == 0 else 1
            kind = rng.choice(("completed", "failed", "cancelled"))
            log.add(
                "jobs",
                end_ms,
                end_ms + rng.randrange(MINUTE_MS),
                job_id=job_id,
                attempt=attempt,
                type=kind,
            )
    for time_ms in range(begin_ms + 10_000, end_ms, 10_000):
        sample = {
            "job_id": job_id,
            "node": node,
            "interval_ms": 10_000,
            "gpus": [f"g{i}" for i in range(gpus)],
            **fields,
        }
        late_ms = rng.choice((0, 0, 0, 5_000, 200_000))
        ratios = [round(rng.random(), 4) for _ in range(gpus)]
        log.add("gpu", time_ms, time_ms + late_ms, util_ratio=ratios, **sample)
        if rng.random() < 0.2:  # another exporter saw the same
            log.add("gpu", time_ms + 700, source="other", util_ratio=ratios[::-1], **sample)
    for time_ms in range(begin_ms, end_ms, 47_000):
        amounts = {"job_id": job_id, "interval_ms": rng.randrange(120_000)}
        log.add(
            "network", time_ms, path="internet", direction="egress", bytes=rng.randrange(10**11), **amounts
        )
        log.add(
            "storage",
            time_ms,
            op="write",
            bytes=rng.randrange(10**9),
            requests=rng.randrange(10**5),
            **amounts,
        )
        log.add("storage", time_ms, op="stored", bytes=rng.randrange(10**13), **amounts)


def _noise(log: _Log) -> None:
    """Repeated and refused records, here and there."""
    for at_ms, line in log.rng.sample(log.lines, 300):
        log.lines.append((at_ms + log.rng.randrange(MINUTE_MS), line))
    for _ in range(40):
        at_ms, line = log.rng.choice(log.lines)
        if isinstance(line, dict):
            broken = {**line["value"], "time_ms": log.rng.choice(("soon", -5, None, 1.5))}
            log.lines.append((at_ms, {"topic": line["topic"], "value": broken}))
