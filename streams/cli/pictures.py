"""Draws amounts with characters: bars of shares, sparklines over time. For terminals; what is piped gets none."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

_EIGHTHS: Final = " \u258f\u258e\u258d\u258c\u258b\u258a\u2589\u2588"
_LEVELS: Final = "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
#: Where nothing was paid, or nothing is known.
_NONE: Final = "\u00b7"


def bar(part: Decimal, most: Decimal, cells: int) -> str:
    """A bar of up to `cells` characters, to an eighth of one; empty for what is none of `most`."""
    if most <= 0 or part <= 0:
        return ""
    eighths = max(1, int(part * cells * 8 / most))
    whole, rest = divmod(eighths, 8)
    return _EIGHTHS[8] * whole + (_EIGHTHS[rest] if rest else "")


def sparkline(values: Sequence[Decimal | None], most: Decimal) -> str:
    """One character a value: its share of `most` in eight levels; a dot for None, 0 or less."""
    return "".join(_NONE if value is None or value <= 0 else _level(value, most) for value in values)


def _level(value: Decimal, most: Decimal) -> str:
    return _LEVELS[min(7, int(value * 8 / most))] if most > 0 else _NONE
