"""The one door to compiled kernels: machine code that the installation brought along, or else the JIT.

A wheel for this platform brings it (see `deploy.kernels`) and needs no Numba; a checkout compiles at its first start.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from streams.engine.kernels import _shipped
from streams.errors import TrainfareError

if TYPE_CHECKING:
    from types import ModuleType

F = TypeVar("F", bound=Callable[..., Any])

_SHIPPED: Final[Mapping[str, Callable[..., Any]] | None] = _shipped.functions()


class NoCompilerError(TrainfareError):
    """Neither machine code for this platform is installed nor what compiles it; the message says what to install."""


@cache
def _compiler() -> ModuleType:
    """Load Numba, which takes half a second of a core.

    Raises:
        NoCompilerError: It is not installed.
    """
    try:
        return import_module("streams.engine.kernels._compiler")
    except ModuleNotFoundError as fault:
        if fault.name not in ("numba", "llvmlite"):
            raise
        raise NoCompilerError(
            "the kernels are not compiled for this platform, and what compiles them is not installed: "
            "pip install 'trainfare[jit]'"
        ) from None


def are_compiled() -> bool:
    """Whether all kernels are there as machine code, so that none takes seconds to load."""
    return _SHIPPED is not None or bool(_compiler().are_compiled())


def mark_compiled() -> None:
    """Note that all kernels are kept; some are there from the first import on."""
    if _SHIPPED is None:
        _compiler().mark_compiled()


def is_cached() -> bool:
    """Whether what is compiled is kept for other processes."""
    return _SHIPPED is not None or bool(_compiler().is_cached())


def kernel(function: F) -> F:
    """The machine code of a function; where none is installed it is compiled on first use."""
    if _SHIPPED is not None:
        return cast("F", _SHIPPED[f"{function.__module__}.{function.__qualname__}"])
    return cast("F", _compiler().kernel(function))


def helper(function: F) -> F:
    """Mark a function that kernels call; it is inlined.

    It is compiled once more for each type of its arguments, and a constant has one of its own: see `arrays.as_int64`.
    """
    return function if _SHIPPED is not None else cast("F", _compiler().helper(function))
