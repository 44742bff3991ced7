"""Sums of Decimals that lose no digit, however many amounts there are."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Context, Decimal
from typing import Final

#: Of a bill's amounts, 33 digits, and of their sum.
EXACT: Final = Context(prec=80)


def exact_sum(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum; 0 of none."""
    found = Decimal(0)
    for each in amounts:
        found = EXACT.add(found, each)
    return found
