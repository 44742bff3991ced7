"""Encodes results of SQL as MessagePack that preserves every value's type, and decodes them.

For commands: loading Arrow takes longer than most answers. An array of the names, the types, and each column of each block with its form.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache, partial
from itertools import chain
from typing import Any, BinaryIO, Final
from zoneinfo import ZoneInfo

import msgspec

from sinks.answer import QueryResult
from sinks.query.cells import DECIMAL, WIDE, Converter, bare, converted, from_text, to_text, zone_of

logger = logging.getLogger(__name__)

MEDIA_TYPE: Final = "application/vnd.msgpack"
#: An array of up to 2^32 items.
BEGIN: Final = b"\xdd"
_AS_IT_IS: Final = ""
_AS_JSON: Final = "json"
_AS_CODED: Final = "coded"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
#: MessagePack's own: whole numbers of up to 64 bits, floats, texts, bytes.
_OWN: Final = frozenset(
    {
        *(f"{sign}Int{bits}" for sign in ("", "U") for bits in (8, 16, 32, 64)),
        "Float32", "Float64", "Bool", "String",
    }
)  # fmt: skip
_encode: Final = msgspec.msgpack.Encoder().encode


class MessagePackEncoder:
    """Collects a result block by block, and writes it."""

    def __init__(self, names: Sequence[str], types: Sequence[str]) -> None:
        self._types = types
        self._parts = [_encode(names), _encode(types)]

    def add(self, block: Sequence[Sequence[object]]) -> int:
        """Add a block of columns of Python values; return its size in bytes."""
        added = [_part(kind, column) for kind, column in zip(self._types, block, strict=True)]
        self._parts += added
        return sum(map(len, added))

    def write(self, sink: BinaryIO) -> None:
        """Write the array."""
        sink.write(BEGIN + len(self._parts).to_bytes(4, "big"))
        sink.writelines(self._parts)


def decode(data: bytes) -> QueryResult:
    """Decode what a `MessagePackEncoder` wrote.

    Raises:
        ValueError: The data are something else.
    """
    try:
        names, types, *parts = msgspec.msgpack.decode(data, type=list[Any])
        columns = [
            [_values(kind, *part) for part in parts[place :: len(types)]] for place, kind in enumerate(types)
        ]
    except (msgspec.MsgspecError, TypeError, ArithmeticError) as fault:
        raise ValueError(str(fault)) from fault
    joined = (blocks[0] if len(blocks) == 1 else [*chain.from_iterable(blocks)] for blocks in columns)
    return QueryResult(tuple(names), tuple(types), tuple(joined))


def _part(kind: str, column: Sequence[object]) -> bytes:
    """A column with its form, encoded."""
    name = bare(kind)
    try:
        if name in _OWN or name.startswith("Enum") or any(isinstance(value, bytes) for value in column):
            return _encode((_AS_IT_IS, column))
        if (codec := _codec(name)) is not None:
            return _encode((_AS_CODED, converted(column, codec[0])))
    except (TypeError, ValueError, ArithmeticError, AttributeError) as fault:
        logger.debug("column is sent as JSON", extra={"type": kind, "reason": str(fault)})
    return _encode((_AS_JSON, converted(column, to_text)))


def _values(kind: str, form: str, values: list[Any]) -> Sequence[object]:
    if form == _AS_IT_IS:
        return values
    codec = _codec(bare(kind)) if form == _AS_CODED else None
    return converted(values, from_text(kind) if codec is None else codec[1])


@cache
def _codec(name: str) -> tuple[Converter, Converter] | None:
    """What encodes and decodes a value of a type that MessagePack lacks; None: it is sent as JSON."""
    if name in WIDE:
        return str, int
    if name in ("Date", "Date32"):
        return date.isoformat, date.fromisoformat
    if decimal := DECIMAL.match(name):
        return f"{{:.{decimal.group(2)}f}}".format, Decimal
    if name.startswith("DateTime"):
        return _microseconds, partial(_instant, zone=ZoneInfo(zone_of(name)))
    return None


def _microseconds(at: datetime) -> int:
    """Since 1970; without a zone it is UTC."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND


def _instant(microseconds: int, zone: ZoneInfo) -> datetime:
    return (_EPOCH + microseconds * _MICROSECOND).astimezone(zone)
