"""Rows of a canary that is large enough to show wherever it is not left out."""

from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from schemas.reserved import CANARY, CANARY_JOB_PREFIX
from schemas.tables import ATTEMPTS, BURN_RATES, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from sinks.rows import Rows
from tests.sinks.rows import rows

JOB = f"{CANARY_JOB_PREFIX}1772359200000.3"


def load(store: Rows, at: datetime) -> None:
    """The canary ran, cost, was sampled and burnt at that minute and a day later."""
    rate = {name: Decimal(1000) for name in ("usd_per_hour", "usd_per_hour_15m", "usd_per_hour_1h")}
    rate |= {name: Decimal(1000) for name in ("usd_per_hour_6h", "usd_per_hour_now", "expected_usd_per_hour")}
    minutes = [at, at + timedelta(days=1)]
    line = {"job_id": JOB, "sku": CANARY, "cost_usd": Decimal(1000), "lost_cost_usd": Decimal(1000)}
    tables: dict[str, list[dict[str, Any]]] = {
        JOB_MINUTES: [
            line | {"minute": minute, "component": component, "quantity": 3_600_000_000, "sku": sku}
            for minute in minutes
            for component, sku in (("gpu", CANARY), ("gpu", ""), ("network", ""))
        ],
        JOB_USAGE_MINUTES: [
            {"job_id": JOB, "minute": minute, "sampled_gpu_s": 9_000, "productive_gpu_ms": 1}
            for minute in minutes
        ],
        JOB_HOURS: [{"job_id": JOB, "lost_cost_usd": Decimal(1000), "gpu_cost_usd": Decimal(1000)}],
        JOBS: [{"job_id": JOB, "state": "running", "gpu_count": Decimal(500), "wall_clock_ms": 9_000_000}],
        ATTEMPTS: [{"job_id": JOB, "state": "running", "wall_clock_ms": 9_000_000}],
        BURN_RATES: [{"job_id": JOB, "time": minute, "ratio_15m": 99.0, **rate} for minute in minutes],
    }
    for table, values in tables.items():
        store.insert(table, rows(table, *values), f"canary {table} {at}")
