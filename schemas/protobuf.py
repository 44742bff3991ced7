"""Reads the wire format of Protocol Buffers: the fields of one message, by number.

Who reads a field says what its bytes are.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5
_UINT64: Final = 2**64
_SIGN: Final = 2**63


class ProtobufError(ValueError):
    """The bytes are no message."""


def fields_of(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Yield number and value of each field of a message, in its order.

    Varints and fixed numbers are unsigned integers; texts, messages and packed numbers are bytes.

    Raises:
        ProtobufError: The message is cut, or has groups or numbers that no writer makes.
    """
    at, size = 0, len(message)
    while at < size:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if not 0 < number < 2**29:
            raise ProtobufError(f"field {number} at byte {at}")
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == _BYTES:
            length, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise ProtobufError(f"field {number} is of wire type {kind}")
        if length > size - at:
            raise ProtobufError(f"field {number} is cut at byte {size}")
        part = message[at : at + length]
        at += length
        yield number, part if kind == _BYTES else int.from_bytes(part, "little")


def signed(value: int) -> int:
    """An int32 or int64 that was read as an unsigned varint."""
    return value - _UINT64 if value >= _SIGN else value


def double(value: int) -> float:
    """A double that was read as fixed 64 bits."""
    found: float = struct.unpack("<d", value.to_bytes(8, "little"))[0]
    return found


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A varint and the place after it."""
    value = shift = 0
    for place in range(at, min(at + 10, len(message))):
        byte = message[place]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if value >= _UINT64:
                break
            return value, place + 1
        shift += 7
    raise ProtobufError(f"a number is cut, or too large, at byte {at}")
