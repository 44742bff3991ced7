"""The keys of a GPU message, recognised by their bytes as two 64-bit words."""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import I32, I64, U8
from streams.engine.kernels.json_scan import first_bytes

#: In the order of their codes: planes, other numbers, the id, then text.
NAMES = (
    "util_ratio", "sm_ratio", "tensor_ratio", "memory_used_mib", "power_w",
    "time_ms", "interval_ms", "id", "attempt", "gpus",
    "gpu", "source", "node", "job_id",
    "cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase",
)  # fmt: skip

PLANES = 5
UTIL, SM, TENSOR, MEMORY, POWER = range(PLANES)
TIME, INTERVAL, ID, ATTEMPT, GPUS, GPU, SOURCE, NODE = range(PLANES, PLANES + 8)
#: Required keys, as bits.
REQUIRED = 1 << UTIL | 1 << TIME | 1 << INTERVAL | 1 << SOURCE | 1 << NODE
# sm_ratio, tensor_ratio, memory_used_mib and power_w
OPTIONAL_PLANES = 1 << SM | 1 << TENSOR | 1 << MEMORY | 1 << POWER

_LONGEST = 16
_CELLS = 64
# Found by search: with it, no two keys share a cell.
_FACTOR = 0x8298687


@helper
def _cell(low: int, high: int) -> int:
    """Hash words that are not negative; the product stays below 2**62, so nothing overflows."""
    folded = low ^ high
    folded = (folded ^ (folded >> 32)) & 0xFFFFFFFF
    return ((folded * _FACTOR) >> 26) & (_CELLS - 1)


def _table() -> tuple[I32, I64, I64]:
    """Per cell the code of its key or -1, and the key's words."""
    codes = np.full(_CELLS, -1, np.int32)
    low, high = np.zeros((2, _CELLS), np.int64)
    for code, name in enumerate(NAMES):
        text = name.encode().ljust(_LONGEST, b"\0")
        words = int.from_bytes(text[:8], "little"), int.from_bytes(text[8:], "little")
        cell = _cell(*words)
        if codes[cell] >= 0:
            raise AssertionError(f"{name} falls into the cell of {NAMES[codes[cell]]}")
        codes[cell], (low[cell], high[cell]) = code, words
    return codes, low, high


_CODES, _LOW, _HIGH = _table()


@helper
def key_of(data: U8, at: int, size: int) -> int:
    """The code of the key of `size` bytes at `at`, -1 if it is unknown. None of its bytes may be 0."""
    if size > _LONGEST:
        return -1
    low = first_bytes(data, at, min(size, 8))
    high = first_bytes(data, at + 8, size - 8) if size > 8 else 0
    cell = _cell(low, high)
    if _LOW[cell] != low or _HIGH[cell] != high:
        return -1
    return int(_CODES[cell])
