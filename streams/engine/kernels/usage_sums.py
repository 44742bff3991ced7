"""Sums the usage rows of holders over ranges of minutes: GPU-time sampled, productive and of tensor cores."""

from __future__ import annotations

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import F64, I64
from streams.engine.kernels.coverage import find_row
from streams.engine.kernels.store import CoverageStore

#: Columns of the sums, ms of GPU-time: sampled, productive, on tensor cores, sampled for tensor cores.
COLUMNS = 4


@kernel
def sum_usage(
    holder: I64, lo_minute: I64, hi_minute: I64, row: I64, first_column: int, store: CoverageStore, sums: I64
) -> None:
    """Add the minutes [lo, hi) of each holder ([n] int64 each) to COLUMNS columns of a row of `sums`, in place."""
    has_tensor = store.tensor_rows.size > 0
    for i in range(holder.size):
        sampled_s = 0
        productive_ms = 0
        tensor_ms = 0
        tensor_sampled_s = 0
        for minute in range(lo_minute[i], hi_minute[i]):
            found = int(store.cells[find_row(holder[i], minute, store.cells, store.rows)]) - 1
            if found >= 0:
                sampled_s += int(store.rows[found]["sampled_gpu_s"])
                productive_ms += int(store.rows[found]["productive_gpu_ms"])
                if has_tensor:
                    tensor_ms += int(store.tensor_rows[found]["gpu_ms"])
                    tensor_sampled_s += int(store.tensor_rows[found]["sampled_gpu_s"])
        sums[row[i], first_column] += 1000 * sampled_s
        sums[row[i], first_column + 1] += productive_ms
        sums[row[i], first_column + 2] += tensor_ms
        sums[row[i], first_column + 3] += 1000 * tensor_sampled_s


@kernel
def sum_recent(
    holder: I64,
    job: I64,
    lo_minute: int,
    hi_minute: int,
    enough_ms: F64,
    store: CoverageStore,
    sums: I64,
    oldest_minute: I64,
) -> None:
    """Add the minutes [lo, hi) of each holder ([n] int64) to its job's row of `sums` ([jobs, 2] int64), in place.

    Columns: ms of GPU-time sampled, productive. Of a job that was productive for `enough_ms` ([jobs]) no more is read.
    `oldest_minute` ([jobs] int64) is lowered to the first minute that was added.
    """
    for i in range(holder.size):
        row = job[i]
        found = -1
        for minute in range(hi_minute - 1, lo_minute - 1, -1):
            if sums[row, 1] >= enough_ms[row]:
                break
            # Mostly the minute before is the row opened before: a look into the index is another cache miss.
            older = int(store.rows[found]["older"]) if found >= 0 else -1
            if older >= 0 and store.rows[older]["minute"] == minute:
                found = older
            else:
                found = int(store.cells[find_row(holder[i], minute, store.cells, store.rows)]) - 1
            if found >= 0:
                sums[row, 0] += 1000 * int(store.rows[found]["sampled_gpu_s"])
                sums[row, 1] += int(store.rows[found]["productive_gpu_ms"])
                oldest_minute[row] = min(oldest_minute[row], minute)


@kernel
def sum_blocks(holder: I64, job: I64, until_minute: int, width: int, store: CoverageStore, sums: I64) -> None:
    """Add blocks of `width` minutes of each holder ([n] int64), back from a minute, to its job's `sums`, in place.

    `sums` ([jobs, blocks, 2] int64): ms of GPU-time sampled, productive; the newest block is the first one.
    """
    for i in range(holder.size):
        found = -1
        for back in range(sums.shape[1] * width):
            minute = until_minute - 1 - back
            # As in `sum_recent`.
            older = int(store.rows[found]["older"]) if found >= 0 else -1
            if older >= 0 and store.rows[older]["minute"] == minute:
                found = older
            else:
                found = int(store.cells[find_row(holder[i], minute, store.cells, store.rows)]) - 1
            if found >= 0:
                sums[job[i], back // width, 0] += 1000 * int(store.rows[found]["sampled_gpu_s"])
                sums[job[i], back // width, 1] += int(store.rows[found]["productive_gpu_ms"])
