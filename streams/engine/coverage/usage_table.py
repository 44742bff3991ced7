"""Builds the rows of `job_usage_minutes`, `unattributed_minutes` and `attempt_gpus`: sampled GPU usage by minute, and the GPUs of it.

Columns of coverage in, an Arrow table out.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from schemas.columns import seconds_of_minutes, table_of, take_text
from schemas.tables import ATTEMPT_GPUS, JOB_USAGE_MINUTES, SCHEMAS, UNATTRIBUTED_MINUTES
from streams.engine.coverage.coverage import Coverage
from streams.engine.kernels.arrays import I64
from streams.engine.kernels.store import BEGINNING_S

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
    idle, tables = coverage.are_idle(rows), dict[str, pa.Table]()
    if not idle.all():
        tables[JOB_USAGE_MINUTES] = usage_rows(coverage, rows[~idle], shard, version)
    if idle.any():
        tables[UNATTRIBUTED_MINUTES] = unattributed_rows(coverage, rows[idle], shard, version)
    if found := _covered_gpus(coverage, rows):
        tables[ATTEMPT_GPUS] = _gpu_rows(found, shard, version)
    return tables


def _gpu_rows(found: list[tuple[str, int, str, str]], shard: int, version: int) -> pa.Table:
    """Build rows of `attempt_gpus`."""
    job_ids, attempts, nodes, gpus = zip(*found, strict=True)
    columns = {
        "job_id": pa.array(job_ids, pa.string()),
        "attempt": pa.array(attempts, pa.uint32()),
        "node": pa.array(nodes, pa.string()),
        "gpu": pa.array(gpus, pa.string()),
        "shard": pa.array([shard] * len(found), pa.uint16()),
        "version": pa.array([version] * len(found), pa.uint64()),
    }
    return table_of(SCHEMAS[ATTEMPT_GPUS], columns)


def _covered_gpus(coverage: Coverage, rows: I64) -> list[tuple[str, int, str, str]]:
    """Return (job_id, attempt, node, GPU) of the holders of these rows of which more GPUs are covered than when they were asked for last.

    All covered GPUs of such a holder: a GPU that becomes covered changes a row.
    """
    store = coverage.store
    newest_s = store.slots["newest_s"]
    found: list[tuple[str, int, str, str]] = []
    for holder in coverage.holders(np.unique(store.rows["holder"][rows]).tolist()):
        if holder.is_idle or holder.stored_gpus == len(holder.gpus):
            continue
        covered = [gpu for gpu, slot in holder.gpus.items() if newest_s[slot] != BEGINNING_S]
        if len(covered) != holder.stored_gpus:
            holder.stored_gpus = len(covered)
            found += [(holder.job_id, holder.attempt, holder.node, gpu) for gpu in covered]
    return found


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
