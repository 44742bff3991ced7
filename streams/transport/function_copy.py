"""Copies a function of another package with some of its global names replaced, for one instance only.

It must not touch the package: what others of this process get from it stays as it is.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast


def rebound(function: Any, **names: object) -> Any:
    """The same code, for which these names of its module mean something else."""
    own = cast("FunctionType", function)
    copy = FunctionType(
        own.__code__, {**own.__globals__, **names}, own.__name__, own.__defaults__, own.__closure__
    )
    copy.__kwdefaults__ = own.__kwdefaults__
    return copy
