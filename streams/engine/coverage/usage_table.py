"""Builds the rows of `job_usage_minutes` and `unattributed_minutes`: sampled GPU usage by minute, with and without a job.

Columns of coverage in, an Arrow table out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from schemas.columns import seconds_of_minutes, table_of, take_text
from schemas.tables import JOB_USAGE_MINUTES, SCHEMAS, UNATTRIBUTED_MINUTES
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.arrays import I64

_MEASURES = (
    "sampled_gpu_s",
    "productive_gpu_ms",
    "sm_gpu_ms",
    "sm_sampled_gpu_s",
    "tensor_gpu_ms",
    "tensor_sampled_gpu_s",
    "memory_used_mib_max",
    "power_w_max",
)


def usage_tables(coverage: Coverage, rows: I64, shard: int, version: int) -> dict[str, pa.Table]:
    """Build the tables of these rows of coverage; those without rows are left out."""
    idle = coverage.are_idle(rows)
    tables = {
        JOB_USAGE_MINUTES: usage_rows(coverage, rows[~idle], shard, version),
        UNATTRIBUTED_MINUTES: unattributed_rows(coverage, rows[idle], shard, version),
    }
    return {name: table for name, table in tables.items() if table.num_rows}


def unattributed_rows(coverage: Coverage, rows: I64, shard: int, version: int) -> pa.Table:
    """Build rows of `unattributed_minutes` of these rows of coverage, all of GPUs without a job."""
    usage = coverage.usage(rows)
    numbers, index = np.unique(usage.holder, return_inverse=True)
    places = [holder.place() for holder in coverage.holders(numbers.tolist())]
    place = index.astype(np.int32)
    size = len(place)
    columns = {
        "minute": seconds_of_minutes(usage.minute),
        "node": take_text([node for node, _ in places], place),
        "gpu": take_text([gpu for _, gpu in places], place),
        "sampled_s": pa.array(usage.sampled_gpu_s.astype(np.int64)),
        "productive_ms": pa.array(usage.productive_gpu_ms.astype(np.int64)),
        "shard": pa.array(np.full(size, shard, np.uint16)),
        "version": pa.array(np.full(size, version, np.uint64)),
    }
    return table_of(SCHEMAS[UNATTRIBUTED_MINUTES], columns)


def usage_rows(coverage: Coverage, rows: I64, shard: int, version: int) -> pa.Table:
    """Build rows of `job_usage_minutes` of these rows of coverage."""
    usage = coverage.usage(rows)
    numbers, index = np.unique(usage.holder, return_inverse=True)
    holders = coverage.holders(numbers.tolist())
    place = index.astype(np.int32)
    size = len(place)
    columns = {
        "minute": seconds_of_minutes(usage.minute),
        "job_id": take_text([holder.job_id for holder in holders], place),
        "attempt": pa.array(np.array([holder.attempt for holder in holders], np.uint32)[place]),
        "node": take_text([holder.node for holder in holders], place),
        **{name: pa.array(getattr(usage, name).astype(np.int64)) for name in _MEASURES},
        "shard": pa.array(np.full(size, shard, np.uint16)),
        "version": pa.array(np.full(size, version, np.uint64)),
    }
    return table_of(SCHEMAS[JOB_USAGE_MINUTES], columns)
