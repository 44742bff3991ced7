"""Splits the covered seconds of a minute where the price of a sampled attempt changes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from schemas.durations import MINUTE_MS
from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, U16, check_pointers, equal_lengths, exact


@kernel
def _minute_pieces(counts: U16, cut_ptr: I64, cut_offset_ms: I32, quantity: I64) -> int:
    """Fill `quantity`; return the first row whose cuts do not ascend from 0 within the minute (-1: none)."""
    for r in range(cut_ptr.size - 1):
        for j in range(cut_ptr[r], cut_ptr[r + 1]):
            a = int(cut_offset_ms[j])
            b = MINUTE_MS
            if j + 1 < cut_ptr[r + 1]:
                b = int(cut_offset_ms[j + 1])
            if a < 0 or a > b or b > MINUTE_MS or (j == cut_ptr[r] and a != 0):
                return r
            total = 0
            for second in range(a // 1000, (b + 999) // 1000):
                overlap_ms = min(b, second * 1000 + 1000) - max(a, second * 1000)
                total += int(np.int64(counts[r, second])) * 1000 * overlap_ms
            quantity[j] = total
    return -1


def minute_pieces(counts: ArrayLike, cut_ptr: ArrayLike, cut_offset_ms: ArrayLike) -> I64:
    """The GPU-milli-ms of each piece ([n] int64): count x 1000 x the ms of the piece in each second.

    Piece j of row r lasts from cut_offset_ms[j] (in the minute; the first 0, ascending) to the next or the end.

    Raises:
        ValueError: The counts are not [row, 60], or cuts do not ascend from 0 within the minute.
    """
    table = exact(counts, np.uint16)
    pointers, offsets = exact(cut_ptr, np.int64), exact(cut_offset_ms, np.int32)
    if table.ndim != 2 or table.shape[1] != 60:
        raise ValueError(f"counts of shape {table.shape}, expected (rows, 60)")
    equal_lengths(table, pointers[1:])
    check_pointers(pointers, len(offsets))
    quantity = np.empty(len(offsets), np.int64)
    bad = _minute_pieces(table, pointers, offsets, quantity)
    if bad >= 0:
        raise ValueError(f"row {bad}: cuts do not rise from 0 within the minute")
    return quantity
