"""Kubernetes' quantities ("500m", "64Gi", "1e3") as whole numbers of small units. Pure functions; any text may be hostile."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

_QUANTITY: Final = re.compile(r"\+?(\d{1,18}(?:\.\d{1,9})?)(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d{1,2}))?")
_FACTORS: Final[Mapping[str, Decimal]] = {
    **{unit: Decimal(1000) ** n for n, unit in enumerate("num", -3)},
    **{unit: Decimal(1000) ** n for n, unit in enumerate("kMGTPE", 1)},
    **{f"{unit}i": Decimal(1024) ** n for n, unit in enumerate("KMGTPE", 1)},
}
_AT_MOST: Final = Decimal(2**60)


def quantity(value: str | float) -> Decimal:
    """A quantity in its plain unit (cores, bytes, pieces).

    Raises:
        ValueError: The value is not a quantity, or is larger than any real one.
    """
    match = _QUANTITY.fullmatch(str(value)[:64])
    if match is None:
        raise ValueError(f"{str(value)[:80]!r} is no quantity")
    digits, unit, exponent = match.groups()
    found = Decimal(digits) * _FACTORS.get(unit, Decimal(1)) * Decimal(10) ** int(exponent or 0)
    if found > _AT_MOST:
        raise ValueError(f"{str(value)[:80]!r} is more than anything has")
    return found


def milli(value: str | float) -> int:
    """A quantity in thousandths, rounded down.

    Raises:
        ValueError: It is no quantity.
    """
    return int(quantity(value) * 1000)


def mebibytes(value: str | float) -> int:
    """A quantity of bytes in MiB, rounded down.

    Raises:
        ValueError: It is no quantity.
    """
    return int(quantity(value) / 2**20)
