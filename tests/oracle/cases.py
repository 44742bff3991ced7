"""Short words for hand-worked logs: one line per event, ids counted, defaults filled in.

A test that depends on an id, source or time names it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from tests.oracle.model import Json, LedgerKey, LedgerRow, Line, Tables

T0 = 1_704_067_200_000  # 2024-01-01T00:00:00Z, a whole minute
M0 = T0 // 60_000

_ids = itertools.count()


def _line(topic: str, event: Json) -> Line:
    event.setdefault("source", "test")
    event.setdefault("id", f"e{next(_ids)}")
    return Line(topic, event)


def job(job_id: str, kind: str, time_ms: int, **values: Any) -> Line:
    """A lifecycle event."""
    return _line("jobs", {"job_id": job_id, "type": kind, "time_ms": time_ms} | values)


def price(
    sku: str,
    usd: str,
    *,
    component: str = "gpu",
    per: str = "gpu_hour",
    effective_ms: int = 0,
    match: Mapping[str, str | None] | None = None,
    **values: Any,
) -> Line:
    """A price revision; by default 1 GPU-hour of any job, in force since 1970."""
    event = {"sku": sku, "usd": usd, "component": component, "per": per, "time_ms": T0}
    return _line("prices", event | {"effective_ms": effective_ms} | dict(match or {}) | values)


def gpu(job_id: str, time_ms: int, interval_ms: int, util: dict[str, float], **values: Any) -> Line:
    """A sample of some GPUs; node n1, attempt 1 unless named."""
    event = {"job_id": job_id, "time_ms": time_ms, "interval_ms": interval_ms, "node": "n1"}
    return _line("gpu", event | {"gpus": list(util), "util_ratio": list(util.values())} | values)


def network(job_id: str, time_ms: int, interval_ms: int, **values: Any) -> Line:
    """An amount of bytes moved."""
    return _line("network", {"job_id": job_id, "time_ms": time_ms, "interval_ms": interval_ms} | values)


def storage(job_id: str, time_ms: int, interval_ms: int, op: str, **values: Any) -> Line:
    """An amount of storage work."""
    return _line(
        "storage", {"job_id": job_id, "time_ms": time_ms, "interval_ms": interval_ms, "op": op} | values
    )


def node(name: str, kind: str, time_ms: int, **values: Any) -> Line:
    """A node event."""
    return _line("nodes", {"node": name, "type": kind, "time_ms": time_ms} | values)


def ledger(tables: Tables, job_id: str, **wanted: Any) -> dict[LedgerKey, LedgerRow]:
    """The ledger rows of a job whose key has the wanted values."""
    return {
        key: row
        for key, row in tables.ledger.items()
        if key.job_id == job_id and all(getattr(key, name) == value for name, value in wanted.items())
    }


def total_nano(tables: Tables, job_id: str, **wanted: Any) -> int:
    """The cost of such rows."""
    return sum(row.cost_nano for row in ledger(tables, job_id, **wanted).values())


def quantity(tables: Tables, job_id: str, **wanted: Any) -> int:
    """The quantity of such rows."""
    return sum(row.quantity for row in ledger(tables, job_id, **wanted).values())


def lost_nano(tables: Tables, job_id: str, **wanted: Any) -> int:
    """The lost cost of such rows."""
    return sum(row.lost_cost_nano for row in ledger(tables, job_id, **wanted).values())
