"""Array layout of a shard's coverage: dtypes, bundles of arrays and their special values.

No behaviour: kernels fold into these arrays, and streams/engine/coverage grows them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streams.engine.kernels.arrays import F64, I32, I64, INT64_MAX, U8, U16, Records

# The newest second of a slot without samples; sums with it cannot overflow int64.
BEGINNING_S = -(2**62)
# The touched second of a slot that is unchanged since the last export.
UNTOUCHED_S = INT64_MAX

SLOT = np.dtype(
    [("newest_s", np.int64), ("touched_s", np.int64), ("holder", np.int32), ("ordinal", np.int32)], align=True
)
ROW = np.dtype(
    [
        ("holder", np.int32),
        ("minute", np.int32),
        ("older", np.int32),  # the previous row of the same holder, -1: none
        ("counts_at", np.int32),  # its line in the counts, -1: none
        ("flags", np.int64),
        ("sampled_gpu_s", np.int64),
        ("productive_gpu_ms", np.int64),
        ("memory_used_mib_max", np.int64),
        ("power_w_max", np.int64),
    ],
    align=True,
)
PLANE = np.dtype([("gpu_ms", np.int64), ("sampled_gpu_s", np.int64)], align=True)
HOLDER = np.dtype(
    [
        ("newest_row", np.int32),
        ("counting", np.int32),
        ("packed_to", np.int32),  # no row of this minute or a later one is packed
        ("gpus", np.int32),  # how many it has
    ],
    align=True,
)
# `packed_to` of a holder without packed rows.
BEGINNING_MINUTE = -(2**31)

# Flags of a row: changed since the last drain, since the last export.
DIRTY = 1
UNEXPORTED = 2
DRAINED = 4  # since it was made or loaded; no snapshot has it

# Positions in `used`, the lengths in use.
ROWS = 0
DIRTY_ROWS = 1
UNEXPORTED_ROWS = 2
UNEXPORTED_SLOTS = 3
COUNTS = 4
USED_SIZE = 5


class CoverageStore(NamedTuple):
    """The arrays of one Coverage. The rings and rows of a plane have length 0 until it is first used."""

    slots: Records
    ring: U16  # [slot, second % width]: 0 = not covered, else permille + 1
    sm_ring: U16
    tensor_ring: U16
    holders: Records
    rows: Records
    sm_rows: Records
    tensor_rows: Records
    counts: U16  # [line, second of the minute]: GPUs of the holder that cover it
    cells: I32  # open addressing: row + 1, 0 = empty
    group_ptr: I64
    group_slot: I32
    dirty: I32
    unexported: I32
    unexported_slots: I32
    used: I64


class Samples(NamedTuple):
    """A batch: its records, and flat over their GPUs the values (NaN: absent; length 0: absent in all records)."""

    group: I32
    begin_s: I64
    end_s: I64
    value_ptr: I64
    util: F64
    sm: F64
    tensor: F64
    memory: F64
    power: F64
    late: I32  # out: how many GPUs of the record were late
    covers: U8  # out: 1 if it covers a second of a GPU in time
