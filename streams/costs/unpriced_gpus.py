"""GPU-hours that have no price: of which types of GPU, and what mends it."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Final

from schemas.escaping import visible

#: So many types are named, those with the most hours.
TYPES_SAID: Final = 3
MENDS: Final = "`trainfare prices load FILE` loads prices (docs/prices.md, Load a list)"
_UNTYPED: Final = "GPUs without a type"


def types_said(hours: Iterable[tuple[str, Decimal]]) -> str:
    """The types of GPU with the most GPU-hours without a price, as `80 of H100, 8 of A100`; empty: none has any.

    Args:
        hours: Types, empty where a job names none, with their GPU-hours.
    """
    found = sorted(((name, each) for name, each in hours if each > 0), key=lambda pair: (-pair[1], pair[0]))
    said = [f"{each:,f} of {visible(name) or _UNTYPED}" for name, each in found[:TYPES_SAID]]
    if len(found) > TYPES_SAID:
        rest = sum((each for _, each in found[TYPES_SAID:]), Decimal(0))
        said.append(f"{rest:,f} of {len(found) - TYPES_SAID} more")
    return ", ".join(said)
