"""The machine code that a wheel brings along: which function is which kernel, and whether it is of these sources."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import numpy as np

#: The extension module that `deploy.kernels` builds.
MODULE: Final = "streams.engine.kernels._machine"
_HERE: Final = Path(__file__).parent
#: Kernels outside of this folder.
_OTHERS: Final = (_HERE.parents[1] / "collect" / "dcgm" / "lines.py",)


def sources_digest(folder: Path, others: Sequence[Path] = ()) -> str:
    """A digest of everything that the kernels depend on."""
    digest = hashlib.blake2b(digest_size=8)
    for path in (*sorted(folder.glob("*.py")), *others):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def digest_of_all() -> str:
    """The digest of the sources of all kernels, also those outside of this folder."""
    return sources_digest(_HERE, _OTHERS)


def functions(name: str = MODULE) -> Mapping[str, Callable[..., Any]] | None:
    """The functions by the full names of their kernels; None if none were installed, or other sources made them.

    Each refuses arrays of other types than it was compiled for by a TypeError.
    """
    try:
        machine = import_module(name)
    except ImportError:
        return None
    if digest_of_all() != machine.SOURCES:
        return None
    machine.start([np.lib.format.descr_to_dtype(ast.literal_eval(each)) for each in machine.TYPES])
    return {each: _one_of(overloads) for each, overloads in machine.FUNCTIONS.items()}


def _one_of(overloads: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    """The first of them that takes the arguments."""
    *earlier, last = overloads
    if not earlier:
        return last

    def call(*given: Any) -> Any:
        for each in earlier:
            try:
                return each(*given)
            except (TypeError, BufferError):
                pass
        return last(*given)

    return call
