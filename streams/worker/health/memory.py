"""Returns freed memory to the system after a catch-up or rebalance, which the allocators would retain.

Without it a worker's memory grows with every rebalance, though its state does not. No thread may use what is
free in another thread's arena.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

#: One for the event loop and one for all other threads; by default glibc makes eight for each core.
ARENAS: Final = 2
_M_ARENA_MAX: Final = -8


def share_arenas() -> None:
    """Let threads share freed memory; call it before any thread starts."""
    with suppress(OSError, AttributeError, TypeError):  # another libc, another system
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, ARENAS)


def release_free_pages() -> None:
    """Free pages to the system; takes a few milliseconds without the GIL. Does nothing without glibc."""
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
