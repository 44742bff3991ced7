"""A store with many live jobs, made of rows and of no log: what the board, its search and its pages read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.tables import BURN_RATES, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS, SCHEMAS
from sinks.clickhouse import ClickHouseStore

#: The newest instant of the store.
AS_OF_MS: Final = 1_772_366_400_000  # 2026-03-01 12:00:00 UTC
#: One live job in so many is a trial of a sweep with an experiment.
SWEPT: Final = 3
TRIALS: Final = 300
NAMES: Final = ("llama-sft", "vit-pretrain", "asr-conformer", "reward-model", "grasp-ppo", "diffusion-xl")
_STATES: Final = ("running", "running", "running", "running", "starting", "metered", "suspended", "queued")
_ENDS: Final = ("completed", "completed", "failed", "cancelled")
_INSERTED: Final = 500_000
_NANO: Final = 9


def name_of(number: int) -> str:
    """The id of a job by its number."""
    if number % SWEPT == 0:
        return f"sweep-{number // SWEPT // TRIALS:04}/trial-{number // SWEPT % TRIALS:03}"
    return f"{NAMES[number % len(NAMES)]}-{number % 97:02}{chr(97 + number % 26)}-{number:06}"


def node_of(number: int) -> str:
    """The node that a job runs on."""
    return f"gpu-node-{number:06}"


def fill(store: ClickHouseStore, live: int, ended: int = 0, minutes: int = 60, hours: int = 24) -> None:
    """Put in jobs: each live one has a rate and a cost in each of the last minutes, and an hour of cost in each of the hours."""
    _insert(store, JOBS, _jobs(live, ended))
    numbers = np.arange(live)
    names = pa.array([name_of(number) for number in range(live)])
    nodes = pa.array([node_of(number) for number in range(live)])
    rates = _money(1.0 + numbers % 997 / 10)
    per_minute = _money((1.0 + numbers % 997 / 10) / 60)
    at_a_time = max(1, _INSERTED // max(live, 1))
    for first in range(0, minutes, at_a_time):
        ages = np.arange(first, min(minutes, first + at_a_time))
        every, at_ms = np.tile(numbers, len(ages)), AS_OF_MS - np.repeat(ages, live) * MINUTE_MS
        each = pa.array(every)
        rate = rates.take(each)
        _insert(
            store,
            BURN_RATES,
            {
                "time": _milli(at_ms),
                "job_id": names.take(each),
                **dict.fromkeys((name for name in SCHEMAS[BURN_RATES].names if "usd_per_hour" in name), rate),
            },
        )
        minute = pa.array((at_ms // 1000 - 60).astype("int64"))
        _insert(
            store,
            JOB_MINUTES,
            {
                "minute": minute,
                "job_id": names.take(each),
                "attempt": _same(1, len(every)),
                "node": nodes.take(each),
                "component": _same("gpu", len(every)),
                "phase": _same("running", len(every)),
                "sku": _same("h100", len(every)),
                "unit": _same("gpu_milli_ms", len(every)),
                "quantity": _same(480_000_000, len(every)),
                "cost_usd": per_minute.take(each),
            },
        )
        if first < 30:
            _insert(
                store,
                JOB_USAGE_MINUTES,
                {
                    "minute": minute,
                    "job_id": names.take(each),
                    "attempt": _same(1, len(every)),
                    "node": nodes.take(each),
                    "sampled_gpu_s": _same(480, len(every)),
                    "productive_gpu_ms": pa.array((every % 100 * 4800).astype("int64")),
                },
            )
    for first in range(0, hours, at_a_time):
        ages = np.arange(first, min(hours, first + at_a_time))
        every = np.tile(numbers, len(ages))
        _insert(
            store,
            JOB_HOURS,
            {
                "hour": pa.array((AS_OF_MS - (np.repeat(ages, live) + 1) * HOUR_MS) // 1000),
                "job_id": names.take(pa.array(every)),
                "attempt": _same(1, len(every)),
                "gpu_milli_ms": _same(8 * 1000 * HOUR_MS, len(every)),
                "gpu_cost_usd": rates.take(pa.array(every)),
            },
        )


def _jobs(live: int, ended: int) -> dict[str, pa.Array]:
    every = range(live + ended)
    is_live = [number < live for number in every]
    return {
        "job_id": pa.array([name_of(n) if n < live else f"past-{n:07}" for n in every]),
        "owner": pa.array([f"user{number % 500:03}" for number in every]),
        "team": pa.array([f"team{number % 40:02}" for number in every]),
        "project": pa.array([f"project{number % 120:03}" for number in every]),
        "experiment": pa.array([_experiment(number) if number < live else "" for number in every]),
        "quality": pa.array([_quality(number) for number in every], pa.map_(pa.string(), pa.float64())),
        "progress": pa.array([_progress(number) for number in every], pa.map_(pa.string(), pa.float64())),
        "state": pa.array(
            [
                _STATES[n // 7 % len(_STATES)] if is_live[n] else _ENDS[n % len(_ENDS)]
                for n in every
            ]
        ),
        "attempts": _same(1, len(is_live)),
        "gpu_type": _same("H100", len(is_live)),
        "gpu_count": pa.array([Decimal(1 << number % 6) for number in every]),
        "first_event": _milli(np.full(len(is_live), AS_OF_MS - 30 * HOUR_MS)),
        "last_event": _milli(np.full(len(is_live), AS_OF_MS)),
        "started": _milli(np.full(len(is_live), AS_OF_MS - 30 * HOUR_MS)),
        "ended": pa.array(
            [None if here else AS_OF_MS - HOUR_MS for here in is_live], pa.timestamp("ms", "UTC")
        ),
    }  # fmt: skip


def _experiment(number: int) -> str:
    return f"lr-{number // SWEPT // TRIALS:04}" if number % SWEPT == 0 else ""


def _quality(number: int) -> list[tuple[str, float]]:
    # A factor without a common divisor, so that the dear ones are not the good ones.
    return [("loss", 0.1 + number * 7_919 % 1_000 / 500)] if number % SWEPT == 0 else []


def _progress(number: int) -> list[tuple[str, float]]:
    return [("step", float(number % 977))] if number % SWEPT == 0 else []


def _insert(store: ClickHouseStore, table: str, columns: dict[str, Any]) -> None:
    schema = SCHEMAS[table]
    rows = len(columns["job_id"])
    whole = {"version": _same(1, rows), **columns}
    arrays = [
        whole[field.name].cast(field.type) if field.name in whole else _nothing(field, rows)
        for field in schema
    ]
    store.insert(table, pa.Table.from_arrays(arrays, schema=schema), f"{table} {columns_key(columns)}")


def columns_key(columns: dict[str, Any]) -> str:
    """What tells one insert from the next: the store takes each token once."""
    return " ".join(str(values[0]) for values in columns.values())


def _nothing(field: pa.Field, rows: int) -> pa.Array:
    kind = field.type
    if pa.types.is_string(kind):
        return _same("", rows)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return pa.array([[]] * rows, kind)
    if pa.types.is_decimal(kind):
        return pa.repeat(pa.scalar(Decimal(0), kind), rows)
    if pa.types.is_timestamp(kind) and field.nullable:
        return pa.nulls(rows, kind)
    return _same(0, rows).cast(kind)


def _same(value: object, rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(value), rows)


def _milli(at_ms: Any) -> pa.Array:
    return pa.array(at_ms.astype("int64")).cast(pa.timestamp("ms", "UTC"))


def _money(usd: Any) -> pa.Array:
    return pa.array(
        [Decimal(round(value * 10**_NANO)).scaleb(-_NANO) for value in usd], pa.decimal128(18, _NANO)
    )
