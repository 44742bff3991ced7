"""Reads the cells of a bill: numbers, instants and tags, as text of CSV or as values of Parquet.

What is not certain is refused with what was expected.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from decimal import ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final

import msgspec

TEXT_MAX_BYTES: Final = 8_192
TAGS_MAX_BYTES: Final = 65_536
TAGS_MAX: Final = 256
#: Costs and quantities are below it; a Decimal(38, 18) has room for the sum of 100,000 such lines.
NUMBER_LIMIT: Final = Decimal(10) ** 15
PLACES: Final = 18
_PLACE: Final = Decimal(1).scaleb(-PLACES)
CONTEXT: Final = Context(prec=60, rounding=ROUND_HALF_EVEN)
_NUMBER: Final = re.compile(r"[+-]?(?:\d{1,20}(?:\.\d{0,60})?|\.\d{1,60})(?:[eE][+-]?\d{1,2})?", re.ASCII)
#: Commas are separators of thousands for certain where a point follows: 1,234 may be 1.234.
_GROUPED: Final = re.compile(r"[+-]?\d{1,3}(?:,\d{3}){1,6}\.\d{0,60}", re.ASCII)
#: The year first: no other reading is possible, as there is of 03/10/2026.
_SLASHED: Final = re.compile(r"(\d{4})/(\d{1,2})/(\d{1,2})(|[ T]\d\d:.*)", re.ASCII)
_FIRST_YEAR, _LAST_YEAR = 2000, 2100


class BadValueError(ValueError):
    """A cell that cannot be read; says what was expected."""


def number(value: object) -> tuple[Decimal, bool]:
    """The number with 18 decimals, and whether it had more and was rounded half to even.

    Raises:
        BadValueError: The cell is not a number, or it is 10^15 or more.
    """
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise BadValueError("expected a number")
    text = str(value).strip(" ")
    if "," in text and _GROUPED.fullmatch(text) is not None:
        text = text.replace(",", "")
    if _NUMBER.fullmatch(text) is None:
        raise BadValueError(f"{shown(text)} is no number; write it as 1000.50")
    exact = Decimal(text)
    if abs(exact) >= NUMBER_LIMIT:
        raise BadValueError(f"{shown(text)} is {NUMBER_LIMIT:f} or more")
    rounded = exact.quantize(_PLACE, context=CONTEXT)
    return rounded, rounded != exact


def total(amounts: Iterable[Decimal]) -> Decimal:
    """The exact sum of amounts that `number` gave; the usual context of Python has too few digits for it."""
    found = Decimal(0)
    for each in amounts:
        found = CONTEXT.add(found, each)
    return found


def difference(one: Decimal, other: Decimal) -> Decimal:
    """The exact difference of two amounts that `number` gave."""
    return CONTEXT.subtract(one, other)


def product(one: Decimal | None, other: Decimal | None) -> Decimal | None:
    """The product to 18 decimals, rounded half to even; None: one of them is not known."""
    if one is None or other is None:
        return None
    return CONTEXT.multiply(one, other).quantize(_PLACE, context=CONTEXT)


def units_of(amount: Decimal) -> int:
    """An amount that `number` gave, in units of its last decimal."""
    return int(CONTEXT.scaleb(amount, PLACES))


def of_units(units: int) -> Decimal:
    """The amount of so many units of the last decimal."""
    return CONTEXT.scaleb(Decimal(units), -PLACES)


def trimmed(amount: Decimal) -> str:
    """An amount without zeros at its end, and without rounding."""
    text = f"{amount:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def instant_s(value: object) -> int:
    """Seconds since 1970; without an offset the instant is UTC.

    Raises:
        BadValueError: It is no instant of the years 2000 to 2100.
    """
    if isinstance(value, str):
        return _instant_of_text(value)
    if isinstance(value, datetime):
        return _seconds(value)
    if isinstance(value, date):
        return _seconds(datetime(value.year, value.month, value.day, tzinfo=UTC))
    raise BadValueError("expected an instant")


def day_s(value: object) -> int:
    """The same of a bound of a billing period: midnight of an offset is that of its day, as a bill is of its issuer's month.

    Raises:
        BadValueError: It is no instant of the years 2000 to 2100.
    """
    return _day_of_text(value) if isinstance(value, str) else instant_s(value)


def written_day_s(value: object) -> int:
    """The same of the day that is written, whatever time and offset stand behind it: its midnight as one of UTC.

    Raises:
        BadValueError: It is no instant of the years 2000 to 2100.
    """
    instant = instant_s(value)
    there = _parsed(value) if isinstance(value, str) else value
    day = there if isinstance(there, datetime) else datetime.fromtimestamp(instant, UTC)
    return _seconds(datetime(day.year, day.month, day.day, tzinfo=UTC))


@lru_cache(maxsize=4_096)
def _day_of_text(text: str) -> int:
    instant, there = _instant_of_text(text), _parsed(text)
    if there.utcoffset() and there.time() == time():
        return _seconds(there.replace(tzinfo=UTC))
    return instant


@lru_cache(maxsize=4_096)
def _instant_of_text(text: str) -> int:
    try:
        if len(text) > 40:
            raise ValueError
        return _seconds(_parsed(text))
    except (ValueError, OverflowError):
        raise BadValueError(
            f"{shown(text)} is no instant such as 2026-10-01T00:00:00Z of the years {_FIRST_YEAR} to {_LAST_YEAR}"
        ) from None


def _parsed(text: str) -> datetime:
    if (parts := _SLASHED.fullmatch(text)) is not None:
        text = f"{parts[1]}-{int(parts[2]):02}-{int(parts[3]):02}{parts[4]}"
    return datetime.fromisoformat(text)


def _seconds(at: datetime) -> int:
    at = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    if not _FIRST_YEAR <= at.year <= _LAST_YEAR:
        raise BadValueError(f"{at:%Y-%m-%d} is not in the years {_FIRST_YEAR} to {_LAST_YEAR}")
    return int(at.timestamp())


def tags(value: object) -> list[tuple[str, str]]:
    """Keys and values, sorted: of a JSON object, of a map, or of a list of objects with `key` and `value`, as Google writes it.

    Raises:
        BadValueError: The cell is none of them, or has too many keys.
    """
    if isinstance(value, str):
        if len(value) > TAGS_MAX_BYTES:
            raise BadValueError(f"longer than {TAGS_MAX_BYTES} bytes")
        try:
            value = msgspec.json.decode(value, type=dict[str, object] | list[dict[str, object]])
        except (msgspec.MsgspecError, RecursionError):
            raise BadValueError(f"{shown(str(value))} is no JSON object") from None
    if isinstance(value, list) and all(isinstance(each, dict) for each in value):
        if not all("key" in each for each in value):
            raise BadValueError("expected keys and values")
        value = {str(each["key"]): each.get("value", "") for each in value}
    try:
        pairs = list(value.items()) if isinstance(value, dict) else [(key, each) for key, each in value]  # type: ignore[attr-defined]  # anything else is no pairs, and caught
    except (TypeError, ValueError):
        raise BadValueError("expected keys and values") from None
    if len(pairs) > TAGS_MAX:
        raise BadValueError(f"more than {TAGS_MAX} tags")
    return sorted({text(key): text(each) for key, each in pairs}.items())


def text(value: object) -> str:
    """A cell as text; what is nested becomes JSON.

    Raises:
        BadValueError: It is too long.
    """
    if isinstance(value, str) and len(value) <= TEXT_MAX_BYTES and value.isascii():
        return value  # most cells, and each of millions of lines has a hundred
    found = value if isinstance(value, str) else _encoded(value)
    if len(found) > TEXT_MAX_BYTES or len(found.encode("utf-8", "surrogatepass")) > TEXT_MAX_BYTES:
        raise BadValueError(f"longer than {TEXT_MAX_BYTES} bytes")
    try:
        found.encode()
    except UnicodeEncodeError:
        raise BadValueError("is not Unicode text") from None
    return found


def _encoded(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool | int | float | Decimal | datetime | date):
        return str(value)
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError):
        raise BadValueError("is of a type that a bill does not have") from None


def shown(found: str) -> str:
    """The head of a value, quoted."""
    return repr(found if len(found) <= 60 else found[:57] + "...")
