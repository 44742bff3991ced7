"""A year of a fleet, made as rows: two hundred jobs at a time on a hundred nodes, minutes of its last day, and one long job."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.column_types import MONEY
from schemas.columns import count, money
from schemas.tables import (
    ALERTS,
    ATTEMPT_GPUS,
    ATTEMPTS,
    BURN_RATES,
    DEAD_LETTERS,
    DELIVERIES,
    JOB_CHECKPOINTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    SCHEMAS,
)
from sinks.clickhouse import ClickHouseStore

END_S: Final = 1_767_225_600  # 2026-01-01
HOUR_S: Final = 3_600
DAY_S: Final = 86_400
YEAR_S: Final = 365 * DAY_S
#: The job that the panels about one job ask for: all year long, its minutes as far back as they are kept.
LONG_JOB: Final = "long"
SLOTS: Final = 200  # jobs at a time
LENGTH_H: Final = 14 * 24  # of each
_NODES: Final = 100
_KEPT_MINUTES: Final = 90 * 1440
_LONG_NODES: Final = 4
_GPU_MINUTE: Final = 60_000 * 1_000


def load(store: ClickHouseStore) -> None:
    """Store all of it."""
    for table, columns in (
        (JOB_HOURS, _job_hours()),
        (JOB_HOURS, _long_hours()),
        (JOBS, _jobs()),
        (ATTEMPTS, _attempts()),
        (NODE_HOURS, _node_hours()),
        (NODE_MINUTES, _node_minutes()),
        (JOB_MINUTES, _long_minutes()),
        (JOB_MINUTES, _long_traffic()),
        (JOB_USAGE_MINUTES, _usage()),
        (BURN_RATES, _rates()),
        (JOB_CHECKPOINTS, _checkpoints()),
        (ATTEMPT_GPUS, _long_gpus()),
        (ALERTS, _alerts()),
        (DELIVERIES, _each_hour("time", outcome="delivered", attempt=1)),
        (DEAD_LETTERS, _each_hour("time", topic="jobs", reason="too_late")),
    ):
        store.insert(table, table_of(table, columns), f"year:{table}:{len(columns)}:{sorted(columns)}")


def table_of(name: str, columns: dict[str, Any]) -> pa.Table:
    """A table of these columns, the others empty; single values stand in every row."""
    size = max(len(value) for value in columns.values() if isinstance(value, np.ndarray | list))
    arrays = []
    for field in SCHEMAS[name]:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.repeat(_default(field), size))
        elif pa.types.is_decimal(field.type):
            units = np.broadcast_to(np.asarray(value, np.int64), size) * 10**field.type.scale
            arrays.append(money(units) if field.type == MONEY else count(units))
        elif isinstance(value, np.ndarray | list):
            arrays.append(pa.array(value).cast(field.type))
        else:
            arrays.append(pa.repeat(pa.scalar(value).cast(field.type), size))
    return pa.Table.from_arrays(arrays, schema=SCHEMAS[name])


def _default(field: pa.Field) -> pa.Scalar:
    if field.nullable:
        return pa.scalar(None, field.type)
    if pa.types.is_map(field.type) or pa.types.is_list(field.type):
        return pa.scalar([], field.type)
    if pa.types.is_string(field.type) or pa.types.is_binary(field.type):
        return pa.scalar("" if pa.types.is_string(field.type) else b"", field.type)
    if pa.types.is_decimal(field.type):
        return pa.scalar(Decimal(0), field.type)
    return pa.scalar(0, pa.int64()).cast(field.type)


def _hours() -> np.ndarray[Any, Any]:
    return np.arange(END_S - YEAR_S, END_S, HOUR_S)


def _slot_names(hours: np.ndarray[Any, Any]) -> list[str]:
    """The job of each slot in each hour, hour by hour."""
    turn = (hours - (END_S - YEAR_S)) // HOUR_S // LENGTH_H
    return [f"job-{slot}-{each}" for each in turn for slot in range(SLOTS)]


def _job_hours() -> dict[str, Any]:
    hours = _hours()
    place = np.arange(len(hours) * SLOTS)
    return {
        "hour": np.repeat(hours, SLOTS),
        "job_id": _slot_names(hours),
        "attempt": 1,
        "cluster": "a",
        "gpu_type": "H100",
        "instance_type": "p5",
        "wall_clock_ms": 3_600_000,
        "queued_ms": np.where(place % 97 == 0, 90_000, 0),
        "starting_ms": np.where(place % 97 == 0, 40_000, 0),
        "gpu_milli_ms": 4 * 60 * _GPU_MINUTE,
        "sampled_gpu_ms": 4 * 3_600_000,
        "productive_gpu_ms": 3 * 3_600_000,
        "gpu_cost_usd": 10 + place % 7,
        "network_cost_usd": 1,
        "version": 1,
    }


def _long_hours() -> dict[str, Any]:
    return {
        "hour": _hours(),
        "job_id": LONG_JOB,
        "attempt": 1,
        "cluster": "a",
        "gpu_type": "H100",
        "instance_type": "p5",
        "wall_clock_ms": 3_600_000,
        "starting_ms": 1_000,
        "gpu_milli_ms": _LONG_NODES * 8 * 60 * _GPU_MINUTE,
        "sampled_gpu_ms": 8 * 3_600_000,
        "productive_gpu_ms": 7 * 3_600_000,
        "gpu_cost_usd": np.full(YEAR_S // HOUR_S, 70),
        "storage_cost_usd": 2,
        "version": 1,
    }


def _jobs() -> dict[str, Any]:
    names = sorted({*_slot_names(_hours()[::LENGTH_H]), LONG_JOB})
    return {
        "job_id": names,
        "owner": [f"owner-{place % 40}" for place in range(len(names))],
        "team": ["" if place % 15 == 0 else f"team-{place % 15}" for place in range(len(names))],
        "state": "running",
        "attempts": 1,
        "gpu_count": 4,
        "first_event": (END_S - YEAR_S) * 1000,
        "last_event": END_S * 1000,
        "version": 1,
    }


def _attempts() -> dict[str, Any]:
    started = np.arange(END_S - YEAR_S, END_S, 7 * DAY_S)
    ended = started + 7 * DAY_S - 600
    return {
        "job_id": LONG_JOB,
        "attempt": np.arange(1, len(started) + 1),
        "state": "preempted",
        "reason": "spot_reclaim",
        "started": started * 1000,
        "ended": ended * 1000,
        "wall_clock_ms": (ended - started) * 1000,
        "version": 1,
    }


def _node_hours() -> dict[str, Any]:
    hours = _hours()
    place = np.arange(len(hours) * _NODES)
    # One in a hundred hours nobody pays for: the node ends, and begins again.
    return {
        "hour": np.repeat(hours, _NODES),
        "node": [f"node-{each}" for each in range(_NODES)] * len(hours),
        "cluster": "a",
        "gpu_type": "H100",
        "instance_type": "p5",
        "paid_ms": np.where((place // _NODES + place % _NODES) % 100 == 0, 0, 3_600_000),
        "starting_ms": np.where((place // _NODES + place % _NODES) % 100 == 1, 150_000, 0),
        "gpu_milli_ms": 8 * 60 * _GPU_MINUTE,
        "cost_usd": 40,
        "version": 1,
    }


def _long_gpus() -> dict[str, Any]:
    return {
        "job_id": LONG_JOB,
        "attempt": 1,
        "node": [f"node-{node}" for node in range(_LONG_NODES) for _ in range(8)],
        "gpu": [f"GPU-{each}" for each in range(8 * _LONG_NODES)],
        "version": 1,
    }


def _node_minutes() -> dict[str, Any]:
    minutes = np.arange(END_S - 2 * DAY_S, END_S, 60)
    place = np.arange(len(minutes) * _NODES)
    return {
        "minute": np.repeat(minutes, _NODES),
        "node": [f"node-{each}" for each in range(_NODES)] * len(minutes),
        "sku": "h100",
        "unit": "gpu_milli_ms",
        "quantity": np.where((place // _NODES + place % _NODES) % 300 == 0, 0, 8 * _GPU_MINUTE),
        "cost_usd": 1,
        "version": 1,
    }


def _long_minutes() -> dict[str, Any]:
    minutes = np.arange(END_S - _KEPT_MINUTES * 60, END_S, 60)
    return {
        "minute": np.repeat(minutes, _LONG_NODES),
        "job_id": LONG_JOB,
        "attempt": 1,
        "node": [f"node-{each}" for each in range(_LONG_NODES)] * len(minutes),
        "component": "gpu",
        "phase": "running",
        "sku": "h100",
        "unit": "gpu_milli_ms",
        "quantity": 8 * _GPU_MINUTE,
        "cost_usd": 1,
        "version": 1,
    }


def _long_traffic() -> dict[str, Any]:
    """Requests and bytes in each minute, alternately."""
    minutes = np.repeat(np.arange(END_S - _KEPT_MINUTES * 60, END_S, 60), 2)
    size = len(minutes) // 2
    return {
        "minute": minutes,
        "job_id": LONG_JOB,
        "attempt": 1,
        "component": ["storage", "network"] * size,
        "unit": ["requests", "bytes"] * size,
        "op": ["write", ""] * size,
        "path": ["", "internet"] * size,
        "quantity": 900,
        "cost_usd": 0,
        "version": 1,
    }


def _usage() -> dict[str, Any]:
    minutes = np.arange(END_S - _KEPT_MINUTES * 60, END_S, 60)
    return {
        "minute": np.repeat(minutes, _LONG_NODES),
        "job_id": LONG_JOB,
        "attempt": 1,
        "node": [f"node-{each}" for each in range(_LONG_NODES)] * len(minutes),
        "sampled_gpu_s": 480,
        "productive_gpu_ms": 400_000,
        "memory_used_mib_max": 70_000,
        "version": 1,
    }


def _rates() -> dict[str, Any]:
    """Of the last six hours: a row each half minute."""
    times = np.arange(END_S - 6 * HOUR_S, END_S + 1, 30)
    place = np.arange(len(times) * SLOTS)
    return {
        "time": np.repeat(times * 1000, SLOTS),
        "job_id": _slot_names(np.full(len(times), END_S - HOUR_S)),
        "usd_per_hour_now": 11 + place % 5,
        "usd_per_hour_15m": 11,
        "usd_per_hour_1h": 11,
        "usd_per_hour_6h": 11,
        "expected_usd_per_hour": 10,
        "ratio_15m": 1 + (place % 9) / 10,
        "version": 1,
    }


def _checkpoints() -> dict[str, Any]:
    """Each ten minutes of the last ninety days, and each day before."""
    kept = END_S - _KEPT_MINUTES * 60
    times = np.concatenate([np.arange(END_S - YEAR_S, kept, DAY_S), np.arange(kept, END_S, 600)])
    return {
        "time": times * 1000,
        "job_id": LONG_JOB,
        "attempt": 1,
        "duration_ms": 4_000 + times % 7_000,
        "id": [f"c{place}" for place in range(len(times))],
        "version": 1,
    }


def _alerts() -> dict[str, Any]:
    started = np.arange(END_S - YEAR_S, END_S, HOUR_S // 2)
    is_new = started > END_S - HOUR_S
    return {
        "alert_id": [f"al_{place}" for place in range(len(started))],
        "rule": "burn_fast",
        "severity": ["page", "ticket"] * (len(started) // 2),
        "status": np.where(is_new, "firing", "resolved").tolist(),
        "subject_kind": "job",
        "subject_name": LONG_JOB,
        "started": started * 1000,
        "changed": started * 1000,
        "summary": "long burns above what is expected",
        "version": 1,
    }


def _each_hour(column: str, **others: Any) -> dict[str, Any]:
    times = np.arange(END_S - YEAR_S, END_S, HOUR_S // 2)
    keys = {"alert_id": [f"al_{place}" for place in range(len(times))], "offset": np.arange(len(times))}
    return {column: times * 1000, **keys, **others, "version": 1}
