"""Tells the log of log.jsonl: `python -m tests.golden.snapshots.story` prints it.

Must have something of everything that a snapshot keeps.  The file is never made again: snapshots rest on it.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.oracle.cases import T0, gpu, job, network, node, price, storage
from tests.oracle.model import HOUR_MS, MINUTE_MS, Line

M, H = MINUTE_MS, HOUR_MS
FIELDS: dict[str, Any] = {"cloud": "aws", "region": "eu", "gpu_type": "h100", "purchase": "spot"}


def beginning() -> Iterator[Line]:
    """Prices, and what is over and archived long before the snapshot."""
    yield price("h100", "3.21")
    yield price("h100-eu", "2.5", match={"region": "eu", "gpu_type": "h100"})
    yield price("h100-eu", "2.75", effective_ms=T0 + 30 * M, match={"region": "eu", "gpu_type": "h100"})
    yield price("net", "0.09", component="network", per="gib")
    yield price("store", "0.023", component="storage", per="gib_month")
    yield price("put", "0.005", component="storage", per="thousand_requests", match={"op": "write"})
    yield price("seat", "0.5", component="license", per="job_hour", match={"team": "vision"})
    for name in ("n1", "n2"):
        yield node(name, "provisioned", T0 - 5 * M, gpu_count=8, **FIELDS)
    yield node("n3", "provisioned", T0 - 5 * M, gpu_count=4)
    yield job("old-a", "queued", T0, team="vision", owner="anna", labels={"run": "ä1"})
    yield job("old-a", "started", T0 + M, gpu_count=2, nodes={"n1": 2}, **FIELDS)
    yield job("old-b", "started", T0 + M, gpu_count=0.5, region="eu", gpu_type="a100")
    for k in range(2, 30):
        yield gpu("old-a", T0 + k * M, M, {"g0": 0.5, "g1": 0.25 + k / 100}, sm_ratio=[0.25, 0.5])
        if k % 5 == 0:
            yield network("old-a", T0 + k * M, 7 * M, bytes=10**9 + k, path="internet", direction="egress")
            yield storage("old-b", T0 + k * M, 5 * M, "write", bytes=10**8, requests=1000 + k)
    yield job("old-a", "checkpointed", T0 + 20 * M)
    yield job("old-a", "failed", T0 + 30 * M, reason="node_failure")
    yield job("old-b", "completed", T0 + 40 * M)
    yield node("n3", "terminated", T0 + 50 * M)
    yield job("short", "started", T0 + 2 * H, gpu_count=1, **FIELDS)
    yield job("short", "completed", T0 + 3 * H)
    for k in range(1, 26):
        yield job(
            "shard manager", "heartbeat" if k > 1 else "started", T0 + k * H, gpu_count=1, nodes={"n2": 1}
        )


def open_accruals(k: int) -> Iterator[Line]:
    """Minute k of what goes on around the snapshot: an event of most kinds."""
    at = T0 + 26 * H + k * M
    if k == 0:
        yield job("retry", "allocated", at, gpu_count=8, nodes={"n1": 4, "n2": 4}, team="vision", **FIELDS)
        yield job("burn", "started", at, gpu_count=8, expected_usd_per_hour="25.68", owner="bo", project="p")
        yield job("waits", "queued", at, gpu_count=16, budget={"usd": 100, "action": "notify"})
        yield node("n3", "provisioned", at, gpu_count=4, region="eu", gpu_type="h100")
    if k == 3:
        yield job("retry", "started", at)
    if k == 21:
        yield job("retry", "preempted", at, reason="spot_reclaim")
    if k == 23:
        yield job("retry", "started", at, attempt=2)
    if k == 30:
        yield job("burn", "scaled", at, gpu_count=72)
        yield job("retry", "suspended", at, attempt=2, holds_gpus=True)
    if k == 33:
        yield job("retry", "resumed", at, attempt=2)
        yield replace(job("refused", "started", at), value={"job_id": "refused", "type": "no such type"})
    if k % 4 == 0:
        yield job("retry", "checkpointed" if k % 8 else "heartbeat", at, attempt=2 if k > 22 else 1)
    gpus = {f"GPU-{g}": (g + k % 3) / 10 for g in range(8)}
    extra = {"tensor_ratio": [0.125] * 8, "memory_used_mib": [1000.0 * k] * 8} if k % 2 else {}
    for name in ("n1", "n2"):
        yield gpu("metered", at, M, gpus, node=name, power_w=[300.5 + k] * 8, **FIELDS, **extra)
    yield gpu("retry", at, M, {"a": 0.5, "b": 1.0}, node="n1", attempt=2 if k > 22 else 1)
    if k % 3 == 0:
        yield network(
            "moves", at, 10 * M, id=f"n{k}", bytes=10**10 + k, path="cross_zone", direction="egress"
        )
        yield storage("retry", at, 2 * M, "stored", id=f"s{k}", bytes=2**35, storage_class="hot")
    if k % 10 == 7:
        again = k - k % 3 - 3
        yield network("moves", at, 10 * M, id=f"n{again}", bytes=1, path="cross_zone", direction="egress")
        yield gpu("metered", at - 9 * M, M, {"GPU-0": 1.0}, node="n1", region="us")
        yield gpu("metered", at - 12 * M, M, {"GPU-0": 1.0}, node="n1", region="us")


def after() -> Iterator[Line]:
    """What comes after the snapshot: every part of it is asked for once more."""
    at = T0 + 27 * H + 60 * M
    yield job("old-a", "updated", at - 3 * H, team="speech", owner="ann")
    yield price("a100", "1.5", match={"gpu_type": "a100"})
    yield job("metered", "started", at - 90 * M, gpu_count=16, nodes={"n1": 8, "n2": 8}, **FIELDS)
    yield job("burn", "scaled", at - 40 * M, gpu_count=8)
    yield job("waits", "cancelled", at)
    yield job("short", "started", at - H, attempt=2)
    yield job("retry", "failed", at, attempt=2, reason="out_of_memory")
    yield price("h100-eu", "2.6", effective_ms=T0 + 26 * H, match={"region": "eu", "gpu_type": "h100"})
    yield network("late", at - 2 * H, 30 * M, bytes=5 * 10**9, path="internet", direction="egress")
    yield node("n1", "terminated", at)
    yield job("metered", "completed", at)
    yield job("burn", "completed", at)
    yield job("shard manager", "heartbeat", at + 25 * H)
    yield job("shard manager", "completed", at + 26 * H)
    yield gpu("shard manager", at + 26 * H, M, {"x": 0.5}, node="n2")


def log() -> list[Line]:
    """All lines, in log order."""
    return [*beginning(), *(line for k in range(120) for line in open_accruals(k)), *after()]


def main() -> None:
    """Print the log."""
    for line in log():
        event = json.dumps({"topic": line.topic, "value": line.value}, ensure_ascii=False)
        sys.stdout.write(event + "\n")


if __name__ == "__main__":
    main()
