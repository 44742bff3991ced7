"""The one door for JIT options: every kernel is nopython, nogil, cached and strict about floats.

Must not hold numerical code, and no other module may import numba.

A cached kernel is keyed by its own file alone: after a change of a helper in another file, remove the
`*.nbi`/`*.nbc` files beside the kernels that call it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    # A kernel that holds the GIL starves the consumer's heartbeat, and the worker is expelled.
    "nogil": True,
    # Integers only decide money here; nothing may be reordered.
    "fastmath": False,
    # Divisors are checked before a loop, not in it.
    "error_model": "numpy",
    "boundscheck": False,
}


def kernel(function: F) -> F:
    """Compile on first use; without a place for the cache (read-only install, no home) compile anyway."""
    try:
        return cast("F", numba.njit(cache=True, **OPTIONS)(function))
    except RuntimeError as fault:
        if "cannot cache" not in str(fault):
            raise
        return cast("F", numba.njit(cache=False, **OPTIONS)(function))
