"""GPU-time of the pieces of a minute, from how many GPUs cover each of its seconds.

Must not know prices: where a minute is cut is handed in.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from streams.kernels._jit import kernel
from streams.kernels.arrays import I32, I64, U16, check_pointers, exact

SECONDS = 60
MINUTE_MS = 60_000
GPU_MILLI = 1_000


@kernel
def _pieces(counts: U16, cut_ptr: I64, cut_offset_ms: I32, quantity: I64) -> None:
    for row in range(len(cut_ptr) - 1):
        for piece in range(cut_ptr[row], cut_ptr[row + 1]):
            begin_ms = cut_offset_ms[piece]
            end_ms = cut_offset_ms[piece + 1] if piece + 1 < cut_ptr[row + 1] else MINUTE_MS
            total = 0
            for second in range(begin_ms // 1000, -(-end_ms // 1000)):
                from_ms = max(begin_ms, second * 1000)
                until_ms = min(end_ms, second * 1000 + 1000)
                total += np.int64(counts[row, second]) * (until_ms - from_ms)
            quantity[piece] = total * GPU_MILLI


def minute_pieces(counts: ArrayLike, cut_ptr: ArrayLike, cut_offset_ms: ArrayLike) -> I64:
    """Thousandths of a GPU x ms of each piece.

    `counts` uint16[r, 60]: GPUs that cover each second of minute r; its pieces begin at
    `cut_offset_ms[cut_ptr[r]:cut_ptr[r + 1]]` (int32, in the minute, rising, the first one 0).
    ValueError for a layout that the kernel would read past.
    """
    seconds, ptr, offsets = exact(counts, np.uint16), exact(cut_ptr, np.int64), exact(cut_offset_ms, np.int32)
    check_pointers(ptr, len(offsets))
    if seconds.ndim != 2 or seconds.shape[1] != SECONDS or len(seconds) != len(ptr) - 1:
        raise ValueError(f"counts of shape {seconds.shape} for {len(ptr) - 1} minutes of {SECONDS} seconds")
    if bool(((offsets < 0) | (offsets >= MINUTE_MS)).any()):
        raise ValueError("a cut lies outside its minute")
    quantity = np.zeros(len(offsets), np.int64)
    _pieces(seconds, ptr, offsets, quantity)
    return quantity
