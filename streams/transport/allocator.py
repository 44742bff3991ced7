"""Keeps freed memory in the C allocator for the next fetch.

It must not keep a peak: `worker.health.memory` returns what is still free after a while. Without such an option (musl,
macOS) nothing changes.
"""

from __future__ import annotations

import ctypes
from typing import Final

#: Freed memory retained at the end of an arena: one fetch of all partitions, and its records.
KEPT_BYTES: Final = 64 * 2**20
#: The largest value that glibc accepts: larger blocks are returned to the system immediately.
_MAPPED_FROM_BYTES: Final = 32 * 2**20
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Retain up to KEPT_BYTES of freed memory; return whether the C library supports it.

    A fetch is tens of MiB that live for a few milliseconds. By default glibc returns them each time, and the system
    clears every page again before the next fetch: a third of the cost of a fetch.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Setting either option disables glibc's dynamic thresholds, so both are set.
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
