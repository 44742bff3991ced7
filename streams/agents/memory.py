"""Gives memory that nothing uses back to the system: after a catching up or a rebalance the allocators keep it.

Without it a worker's memory creeps up with every rebalance, though what it holds does not. It must not free anything.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import pyarrow as pa


def give_back() -> None:
    """Return free pages; takes some milliseconds at most, without the GIL. Nothing happens without glibc."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@lru_cache(maxsize=1)
def _malloc_trim() -> Any:
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):  # another libc, another system
        return None
