"""The columns of the tables of budgets: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import LABELS, MILLI, MONEY, NAMES, TEXT, schema_of

BUDGET_USE: Final = "budget_use"
ACTIONS: Final = "actions"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    # What each budget's subject has used in each period, as of the last whole minute that was judged.
    BUDGET_USE: schema_of(
        budget=TEXT,
        subject_kind=TEXT,
        subject_name=TEXT,
        per=TEXT,
        period_start=MILLI,
        period_end=MILLI,  # of `total` and `run`: 1970, there is none
        match=LABELS,
        jobs=NAMES,  # of a budget per run, the oldest first, the newest 400 at most
        limit_usd=MONEY,  # 0: it does not limit dollars
        limit_gpu_hours=pa.float64(),
        limit_wall_clock_hours=pa.float64(),
        used_usd=MONEY,
        used_gpu_hours=pa.float64(),
        used_wall_clock_hours=pa.float64(),
        used_ratio=pa.float64(),
        usd_per_hour=MONEY,
        time=MILLI,
        version=pa.uint64(),
    ),
    ACTIONS: schema_of(
        time=MILLI,
        idempotency_key=TEXT,
        budget=TEXT,
        period_start=MILLI,
        job_id=TEXT,
        rung=TEXT,
        mode=TEXT,
        state=TEXT,
        attempt=pa.uint32(),
        spent_usd=MONEY,
        limit_usd=MONEY,
        used_ratio=pa.float64(),
        alert_id=TEXT,
        detail=TEXT,
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    BUDGET_USE: ("budget", "subject_kind", "subject_name", "period_start"),
    ACTIONS: ("idempotency_key", "mode", "state", "attempt"),
}
