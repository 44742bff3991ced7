"""Open addressing over 128-bit keys in two uint64 arrays; the cell (0, 0) is empty.

The caller keeps every table at most half full, so that each probe ends.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I64, U64

# Positions in a table's state.
COUNT = 0
HAS_ZERO = 1


@kernel
def _cell(lo: np.uint64, hi: np.uint64, table_lo: U64, table_hi: U64) -> int:
    """The cell that holds the key, or the empty one where it belongs; the key is not (0, 0)."""
    zero = np.uint64(0)
    mask = table_lo.size - 1
    # Keys are hashes already, so any bits serve; the mask keeps them inside int64.
    at = int(np.int64(lo & np.uint64(mask)))
    while not (table_lo[at] == lo and table_hi[at] == hi):
        if table_lo[at] == zero and table_hi[at] == zero:
            break
        at = (at + 1) & mask
    return at


@kernel
def _contains(lo: np.uint64, hi: np.uint64, table_lo: U64, table_hi: U64, state: I64) -> bool:
    zero = np.uint64(0)
    if lo == zero and hi == zero:
        return bool(state[HAS_ZERO] != 0)
    at = _cell(lo, hi, table_lo, table_hi)
    return bool(table_lo[at] == lo and table_hi[at] == hi)


@kernel
def _insert(lo: np.uint64, hi: np.uint64, table_lo: U64, table_hi: U64, state: I64) -> bool:
    """Insert the key; return whether it was new."""
    zero = np.uint64(0)
    if lo == zero and hi == zero:
        if state[HAS_ZERO] != 0:
            return False
        state[HAS_ZERO] = 1
        return True
    at = _cell(lo, hi, table_lo, table_hi)
    if table_lo[at] == lo and table_hi[at] == hi:
        return False
    table_lo[at] = lo
    table_hi[at] = hi
    state[COUNT] += 1
    return True


@kernel
def insert_ids(lo: U64, hi: U64, table_lo: U64, table_hi: U64, state: I64) -> None:
    """Insert all keys into a table with room for them."""
    for i in range(lo.size):
        _insert(lo[i], hi[i], table_lo, table_hi, state)


@kernel
def add_ids(
    lo: U64,
    hi: U64,
    table_lo: U64,
    table_hi: U64,
    state: I64,
    older_lo: U64,
    older_hi: U64,
    older_state: I64,
    is_new: NDArray[np.bool_],
) -> None:
    """Insert the keys that neither table holds into the first one; set `is_new` for these."""
    for i in range(lo.size):
        if _contains(lo[i], hi[i], older_lo, older_hi, older_state):
            is_new[i] = False
        else:
            is_new[i] = _insert(lo[i], hi[i], table_lo, table_hi, state)
