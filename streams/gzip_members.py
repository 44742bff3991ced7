"""Unpacks gzip within a limit of size: no more is unpacked of a bomb."""

from __future__ import annotations

import zlib
from typing import Final

_GZIP: Final = 31  # zlib's `wbits`
#: Packed, of one step. What follows a member is copied, so a step is what many small members cost each.
_STEP_BYTES: Final = 2**14


class TooLargeError(Exception):
    """The content exceeds the limit."""


class GzipError(ValueError):
    """This is no gzip, or not all of it."""


def unpacked(packed: bytes, most_bytes: int) -> bytes:
    """The content of all members, one after the other; of no bytes none.

    Raises:
        TooLargeError: It exceeds `most_bytes`.
        GzipError: It is no gzip, is damaged, cut short, or followed by something else.
    """
    view, at, found = memoryview(packed), 0, bytearray()
    while at < len(view):
        member = zlib.decompressobj(_GZIP)
        while not member.eof:
            step = view[at : at + _STEP_BYTES]
            if not step:
                raise GzipError("its end is missing")
            try:
                found += member.decompress(step, most_bytes + 1 - len(found))
            except zlib.error as fault:
                raise GzipError(str(fault)) from None
            if len(found) > most_bytes:
                raise TooLargeError
            at += len(step) - len(member.unused_data)
    return bytes(found)
