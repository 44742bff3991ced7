"""Returns freed memory to the system after a catch-up or rebalance, as the allocators keep it.

Without it a worker's memory creeps up with every rebalance, though what it holds does not. It must not free anything.
What a single thread has in a pool of its own no other one may use.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

#: The event loop's, and one for all other threads; by itself glibc makes eight for each core.
ARENAS: Final = 2
_M_ARENA_MAX: Final = -8


def share_arenas() -> None:
    """Let threads share what they free; due before there are any."""
    with suppress(OSError, AttributeError, TypeError):  # another libc, another system
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def release_free_pages() -> None:
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
