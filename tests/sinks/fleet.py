"""A small fleet whose every figure in the tests of views was worked out by hand.

Job a (team red, completed): attempt 1 on spot in cluster c1 was preempted, attempt 2 on demand in c2 completed.
Job b (team red, running): one attempt in c1. Job c (team blue) has no cost, no start, no usage.

Ledger, in March 2026, one GPU-hour = 3,600,000,000 gpu_milli_ms:
    a/1 10:00 n1 gpu      2 GPU-h   6.00 lost 6.00 (old version: 99.00)
    a/1 10:30    overhead           1.00 lost 1.00
    a/2 12:00 n1 gpu      1 GPU-h   4.00
    a/2 12:00    network            0.50           (no phase)
    a/2 12:00    storage            0.25           (no phase)
    a/2 12:00    license            0.125
    a/2 12:00    labor              0.125
    b/1 10:00 n2 gpu      4 GPU-h  12.00
    b/1 10:00    compute            2.00
    b/1 15:00    network            8.00           (no phase, no paid time in that hour)
    b/1 11:00 n2 gpu      written as 1 GPU-h 7.00, then as quantity 0: it does not show
Total 34.00: a 12.00, b 22.00.
"""

from decimal import Decimal
from typing import Any

from schemas.tables import ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS, NODE_MINUTES
from schemas.units import COMPONENTS
from sinks.rows import Rows
from tests.sinks.rows import instant, rows

GPU_HOUR = 3_600_000_000
HOUR_MS = 3_600_000
NANO = Decimal("0.000000001")


def line(job: str, clock: str, component: str, usd: str, **more: Any) -> dict[str, Any]:
    """A row of the ledger in March 2026."""
    job_id, attempt = job.split("/")
    return {
        "job_id": job_id,
        "attempt": int(attempt),
        "minute": instant(f"2026-03-01 {clock}"),
        "component": component,
        "cost_usd": Decimal(usd),
        "quantity": 1,
        "phase": "" if component in ("network", "storage") else "running",
        "sku": f"{component}-sku",
    } | more


def hour(job: str, clock: str, /, **values: Any) -> dict[str, Any]:
    """A row of an attempt's hour in March 2026; a component's cost goes by its name."""
    job_id, attempt = job.split("/")
    named = {f"{name}_cost_usd" if name in COMPONENTS else name: values[name] for name in values}
    money = {name: Decimal(value) for name, value in named.items() if name.endswith("_usd")}
    at = {"job_id": job_id, "attempt": int(attempt), "hour": instant(f"2026-03-01 {clock}")}
    return at | named | money


SPOT_C1 = {"cluster": "c1", "purchase": "spot"}
IN_C2 = {"cluster": "c2", "region": "r1", "purchase": "on_demand"}
LOST = {"lost_cost_usd": Decimal(6), "lost_quantity": 2 * GPU_HOUR}
LINES = [
    line("a/1", "10:00", "gpu", "6", node="n1", quantity=2 * GPU_HOUR, **LOST, version=2),
    line("a/1", "10:30", "overhead", "1", lost_cost_usd=Decimal(1)),
    line("a/2", "12:00", "gpu", "4", node="n1", quantity=GPU_HOUR),
    line("a/2", "12:00", "network", "0.5", unit="bytes"),
    line("a/2", "12:00", "storage", "0.25", unit="requests"),
    line("a/2", "12:00", "license", "0.125", quantity=GPU_HOUR),
    line("a/2", "12:00", "labor", "0.125", quantity=GPU_HOUR),
    line("b/1", "10:00", "gpu", "12", node="n2", quantity=4 * GPU_HOUR),
    line("b/1", "10:00", "compute", "2", unit="cpu_milli_ms"),
    line("b/1", "15:00", "network", "8", unit="bytes"),
    line("b/1", "11:00", "gpu", "0", node="n2", quantity=0, version=2),
]
OLDER = [
    line("a/1", "10:00", "gpu", "99", node="n1", quantity=GPU_HOUR, version=1),
    line("b/1", "11:00", "gpu", "7", node="n2", quantity=GPU_HOUR, version=1),
]
JOB_ROWS: list[dict[str, Any]] = [
    {"job_id": "a", "team": "red", "owner": "ann", "project": "p", "experiment": "e1", "state": "completed"}
    | {"attempts": 2, "wall_clock_ms": 3 * HOUR_MS + 1, "labels": [("k", "v")]},
    {"job_id": "b", "team": "red", "owner": "bob", "project": "p", "experiment": "e1", "state": "running"}
    | {"attempts": 1, "wall_clock_ms": HOUR_MS},
    {"job_id": "c", "team": "blue", "owner": "cat", "experiment": "e2", "state": "queued", "attempts": 1},
]
ATTEMPT_ROWS: list[dict[str, Any]] = [
    {
        "job_id": "a",
        "attempt": 1,
        "cluster": "c1",
        "region": "r1",
        "purchase": "spot",
        "started": instant("2026-03-01 10:00"),
        "ended": instant("2026-03-01 11:00"),
        "wall_clock_ms": HOUR_MS,
    },
    {"job_id": "a", "attempt": 2, "cluster": "c2", "region": "r1", "purchase": "on_demand"}
    | {"started": instant("2026-03-01 12:00"), "wall_clock_ms": 2 * HOUR_MS + 1},
    {
        "job_id": "b",
        "attempt": 1,
        "cluster": "c1",
        "region": "r2",
        "purchase": "spot",
        "started": instant("2026-03-01 10:00"),
        "wall_clock_ms": HOUR_MS,
    },
    {"job_id": "c", "attempt": 1},
]
# Sampled 2 GPU-h of a (1.5 productive, of which tensor 0.75) on two nodes, and 4 GPU-h of b (1 productive).
USAGE_ROWS: list[dict[str, Any]] = [
    {"job_id": "a", "attempt": 2, "node": node, "sampled_gpu_s": 3600, "productive_gpu_ms": productive_ms}
    | {
        "tensor_gpu_ms": tensor_ms,
        "tensor_sampled_gpu_s": 3600,
        "memory_used_mib_max": mib,
        "power_w_max": mib,
    }
    for node, productive_ms, tensor_ms, mib in [
        ("n1", HOUR_MS, HOUR_MS // 2, 10),
        ("n2", 1_800_000, 900_000, 30),
    ]
] + [{"job_id": "b", "attempt": 1, "node": "n2", "sampled_gpu_s": 14400, "productive_gpu_ms": HOUR_MS}]
# What the attempts paid for by hour: the sums of the lines above, and of the usage in its hour.
HOUR_ROWS: list[dict[str, Any]] = [
    hour("a/1", "10:00", gpu="6", overhead="1", wall_clock_ms=HOUR_MS, gpu_milli_ms=2 * GPU_HOUR, **SPOT_C1)
    | {"lost_gpu_milli_ms": 2 * GPU_HOUR, "lost_cost_usd": Decimal(7), "region": "r1"},
    hour("a/2", "10:00", sampled_gpu_ms=2 * HOUR_MS, productive_gpu_ms=3 * HOUR_MS // 2, **IN_C2)
    | {"tensor_gpu_ms": 3 * HOUR_MS // 4, "tensor_sampled_gpu_ms": 2 * HOUR_MS},
    hour("a/2", "12:00", gpu="4", network="0.5", storage="0.25", license="0.125", labor="0.125", **IN_C2)
    | {"wall_clock_ms": HOUR_MS, "gpu_milli_ms": GPU_HOUR},
    hour("a/2", "13:00", wall_clock_ms=HOUR_MS + 1, **IN_C2),
    hour("b/1", "10:00", gpu="12", compute="2", wall_clock_ms=HOUR_MS, gpu_milli_ms=4 * GPU_HOUR, **SPOT_C1)
    | {"sampled_gpu_ms": 4 * HOUR_MS, "productive_gpu_ms": HOUR_MS, "region": "r2"},
    hour("b/1", "15:00", network="8", region="r2", **SPOT_C1),
    hour("b/1", "11:00", version=2, region="r2", **SPOT_C1),
]
OLDER_HOURS = [
    hour("a/1", "10:00", gpu="99", region="r1", version=0, **SPOT_C1),
    hour("b/1", "11:00", gpu="7", gpu_milli_ms=GPU_HOUR, region="r2", version=1, **SPOT_C1),
]
# n1 is paid 10.00 in the minute of a/1's 6.00; n2 9.00 in that of b's 12.00; n3 is idle.
NODE_ROWS: list[dict[str, Any]] = [
    {"node": node, "minute": instant("2026-03-01 10:00"), "quantity": 1, "cost_usd": Decimal(usd)}
    for node, usd in [("n1", 10), ("n2", 9), ("n3", 5)]
]


def load(store: Rows) -> None:
    """Put the fleet into a store, the older versions last."""
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *LINES), "lines")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *OLDER), "older")
    store.insert(JOBS, rows(JOBS, *JOB_ROWS), "jobs")
    store.insert(JOBS, rows(JOBS, {"job_id": "a", "team": "old", "version": 0}), "old jobs")
    store.insert(ATTEMPTS, rows(ATTEMPTS, *ATTEMPT_ROWS), "attempts")
    store.insert(JOB_USAGE_MINUTES, rows(JOB_USAGE_MINUTES, *USAGE_ROWS), "usage")
    store.insert(JOB_HOURS, rows(JOB_HOURS, *HOUR_ROWS), "hours")
    store.insert(JOB_HOURS, rows(JOB_HOURS, *OLDER_HOURS), "older hours")
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, *NODE_ROWS), "nodes")
