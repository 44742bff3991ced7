"""The only place for JIT options: every kernel is nopython, nogil, cached and strict about floats. `_jit` loads it."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import numba
import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]  # untyped
from numba.extending import intrinsic, overload

from streams import fallbacks
from streams.engine.kernels._shipped import sources_digest
from streams.engine.kernels._word import load_word
from streams.fallbacks import KERNELS

F = TypeVar("F", bound=Callable[..., Any])

OPTIONS: dict[str, Any] = {
    # A kernel that holds the GIL starves the consumer's heartbeat, and the worker is removed from the group.
    "nogil": True,
    # Money depends on integers only; no operation may be reordered.
    "fastmath": False,
    # Divisors are checked before a loop, not in it.
    "error_model": "numpy",
    "boundscheck": False,
    # No kernel allocates (one that does fails to compile), so none needs reference counts. Numba would update them
    # atomically at each use of an array in a tuple: 25 times the time of a fold.
    "_nrt": False,
}
_INLINED: Any = {**OPTIONS, "forceinline": True}


def open_to_others(folder: Path) -> bool:
    """Whether other users may write to an existing folder."""
    try:
        return bool(folder.stat().st_mode & 0o022)
    except OSError:
        return False


def _use_own_cache() -> bool:
    """Give each state of the sources its own cache folder; return whether a trusted one exists.

    Numba checks only whether a kernel's own file has changed, not the helpers and constants from other files: an
    upgrade could continue with the old arithmetic. And it runs the machine code it finds, whoever wrote it.
    """
    config: Any = numba.config
    here = Path(__file__).parent
    # Whoever can write beside the sources can write the sources.
    if config.CACHE_DIR and open_to_others(Path(config.CACHE_DIR)):
        warnings.warn(
            f"NUMBA_CACHE_DIR {config.CACHE_DIR} may be written by other users; kernels are compiled at each start. "
            "Run: chmod go-w on it, and empty it",
            stacklevel=2,
        )
        return False
    base = Path(config.CACHE_DIR) if config.CACHE_DIR else here / "__pycache__"
    config.CACHE_DIR = str(base / sources_digest(here))
    return True


_CACHED: Final = _use_own_cache()
#: The name of an empty file beside them.
_ALL: Final = "all_compiled"


def _cache_dir() -> Path:
    config: Any = numba.config
    return Path(config.CACHE_DIR)


def are_compiled() -> bool:
    """Whether an earlier process has kept all kernels of these sources, so that none takes seconds to load."""
    return _CACHED and (_cache_dir() / _ALL).exists()


def mark_compiled() -> None:
    """Note that all kernels are kept; some are there from the first import on."""
    if _CACHED:
        with suppress(OSError):
            (_cache_dir() / _ALL).touch()


def is_cached() -> bool:
    """Whether what is compiled is kept for other processes."""
    return _CACHED


def kernel(function: F) -> F:
    """Compile on first use; without a place for the cache (read-only installation, no home) compile anyway."""
    return _compiled(function, OPTIONS)


def helper(function: F) -> F:
    """Mark a function that kernels call; it is inlined.

    It is compiled once more for each type of its arguments, and a constant has one of its own: see `arrays.as_int64`.
    """
    return _compiled(function, _INLINED)


def _compiled(function: F, options: dict[str, Any]) -> F:
    fallbacks.counts[KERNELS] += not _CACHED
    try:
        return cast("F", numba.njit(cache=_CACHED, **options)(function))
    except RuntimeError as fault:
        if "cannot cache" not in str(fault):
            raise
        fallbacks.counts[KERNELS] += 1
        return cast("F", numba.njit(cache=False, **options)(function))


@intrinsic
def _load_word(_context: Any, data: Any, at: Any) -> Any:
    """Emit one load instruction; it may be unaligned."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        here = builder.gep(array.data, [arguments[1]])
        word = builder.load(builder.bitcast(here, ir.IntType(64).as_pointer()), align=1)
        if sys.byteorder == "little":
            return word
        return builder.bswap(word)

    return numba.types.int64(data, at), generate


@overload(load_word, strict=False, jit_options=_INLINED)
def _compiled_load_word(data: Any, at: Any) -> Any:
    """Provide `load_word` to kernels."""
    load: Any = _load_word
    return lambda data, at: load(data, np.int64(at))
