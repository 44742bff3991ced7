"""The one operation that Numba lacks: an unaligned load of eight bytes, which `_compiler` provides to kernels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def load_word(data: NDArray[np.uint8], at: int) -> int:
    """Load eight bytes at `at` as a little-endian int64; all of them must be inside the array."""
    return int.from_bytes(data[at : at + 8].tobytes(), "little", signed=True)
