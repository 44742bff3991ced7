"""Conversions of units, in exact arithmetic. They refuse a value with ValueError; its text says what was expected."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import Any, Final

#: Families of units, each with its size in the smallest of the family.
_FAMILIES: Final[tuple[Mapping[str, int], ...]] = (
    {
        "ns": 1,
        "us": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "min": 60 * 10**9,
        "h": 3600 * 10**9,
    },
    {
        "bytes": 1,
        **{f"{letter}B": 1000**power for power, letter in enumerate("kMGT", 1)},
        **{f"{letter}iB": 1024**power for power, letter in enumerate("KMGT", 1)},
    },
    {"percent": 1, "ratio": 100},
)
#: What fields in these units hold: whole numbers; the others three decimals, but ratios all.
_WHOLE: Final = frozenset({"ns", "us", "ms", "s", "bytes"})
_DECIMALS: Final = 3
_LARGEST: Final = 2**63
_ITEMS_AT_MOST: Final = 20_000
_TEXT_CHARS: Final = 40
_NUMBER: Final = re.compile(r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,2})?")
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

Conversion = Callable[[Any], Any]


def conversion(name: str) -> Conversion:
    """The conversion of that name, such as "s->ms"; it works on each entry of an array or object, too.

    Raises:
        ValueError: There is none.
    """
    if name == "text":
        return _each(_text)
    if name == "number":
        return _each(lambda value: _plain(_number(value)))
    unit, _, target = name.partition("->")
    if unit == "iso" and target in {"ms", "s"}:
        step = timedelta(milliseconds=1) if target == "ms" else timedelta(seconds=1)
        return _each(lambda value: (_instant(value) - _EPOCH) // step)
    for family in _FAMILIES:
        if unit in family and target in family:
            return _each(_scaled(Fraction(family[unit], family[target]), target))
    listed = ", ".join(each for family in _FAMILIES for each in family)
    raise ValueError(f"expected text, number, iso->ms, iso->s, or A->B of alike ones of {listed}")


def _each(convert: Callable[[Any], Any]) -> Conversion:
    def converted(value: Any) -> Any:
        if not isinstance(value, list | dict):
            return convert(value)
        if len(value) > _ITEMS_AT_MOST:
            raise ValueError(f"at most {_ITEMS_AT_MOST} entries")
        if isinstance(value, list):
            return [convert(each) for each in value]
        return {name: convert(each) for name, each in value.items() if each is not None}

    return converted


def _scaled(factor: Fraction, target: str) -> Callable[[Any], int | float]:
    def convert(value: Any) -> int | float:
        found = _number(value) * factor
        if abs(found) >= _LARGEST:
            raise ValueError("a number below 2^63")
        if target in _WHOLE:
            return round(found)
        return _plain(found if target == "ratio" else round(found, _DECIMALS))

    return convert


def _plain(value: Fraction) -> int | float:
    if abs(value) >= _LARGEST:
        raise ValueError("a number below 2^63")
    return value.numerator if value.denominator == 1 else float(value)


def _number(value: Any) -> Fraction:
    """A number exactly: of a float, what it is written as."""
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    if isinstance(value, float) and math.isfinite(value):
        value = repr(value)
    if isinstance(value, str) and len(value) <= 2 * _TEXT_CHARS and _NUMBER.fullmatch(value.strip()):
        return Fraction(value.strip())
    raise ValueError("a number, or one as a text")


def _instant(value: Any) -> datetime:
    """An instant; a time without a zone is UTC."""
    if isinstance(value, str) and len(value) <= _TEXT_CHARS:
        try:
            at = datetime.fromisoformat(value.strip())
            return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise ValueError('a time of ISO 8601, such as "2026-06-01T10:00:00Z"')


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise ValueError("a text, a number or a boolean")
