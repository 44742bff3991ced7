"""Copies a function of another package with some of its global names replaced, for one instance only."""

from __future__ import annotations

from types import FunctionType
from typing import Any, cast


def rebound(function: Any, **names: object) -> Any:
    """A function with the same code, in which these global names are replaced."""
    own = cast("FunctionType", function)
    copy = FunctionType(
        own.__code__, {**own.__globals__, **names}, own.__name__, own.__defaults__, own.__closure__
    )
    copy.__kwdefaults__ = own.__kwdefaults__
    return copy
