"""Keeps freed memory in the C allocator for the next fetch.

It must not keep a peak: `agents.memory` gives back what is still free after a while.  Where there is no such switch
(musl, macOS), nothing changes.
"""

from __future__ import annotations

import ctypes
from typing import Final

#: Kept of what was freed at the end of an arena; one fetch of all partitions, and what is made of it.
KEPT_BYTES: Final = 64 * 2**20
#: The largest that glibc takes: what is larger goes back to the system at once.
_MAPPED_FROM_BYTES: Final = 32 * 2**20
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3


def keep_freed_memory() -> bool:
    """Keep up to KEPT_BYTES of freed memory; whether the C library can.

    A fetch is tens of MiB that live for some milliseconds.  By itself glibc returns them each time, and the system
    clears every page again before the next: a third of what a fetch costs.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    # Either switch ends glibc's own adapting, so both are set.
    return bool(mallopt(_M_MMAP_THRESHOLD, _MAPPED_FROM_BYTES) and mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES))
