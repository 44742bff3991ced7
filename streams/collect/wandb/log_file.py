"""Reads the records of a .wandb file: a log in LevelDB's format, of blocks of 32 KiB with checksums.

A file that is still written ends anywhere: what is whole is read.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Final

#: ":W&B", a magic number and the version of the format.
_BEGIN: Final = struct.pack("<4sHB", b":W&B", 0xBEE1, 0)
_BLOCK_BYTES: Final = 32_768
_HEAD: Final = struct.Struct("<IHB")  # checksum, length, type
_FULL, _FIRST, _LAST = 1, 2, 4  # 3: neither the first nor the last part
_RECORD_BYTES: Final = 16 * 2**20


class RunFileError(ValueError):
    """The file is none of W&B's, or damaged."""


def records_of(content: bytes) -> Iterator[bytes]:
    """Yield the records of a file, up to its end or to one that is not whole yet.

    Raises:
        RunFileError: It is no such file, or a record in it is damaged.
    """
    if not content.startswith(_BEGIN):
        raise RunFileError("no file of W&B's format 0")
    at, parts, size = len(_BEGIN), list[bytes](), 0
    while at + _HEAD.size <= len(content):
        if _BLOCK_BYTES - at % _BLOCK_BYTES < _HEAD.size:
            at += _BLOCK_BYTES - at % _BLOCK_BYTES  # too little of the block is left for a record
            continue
        checksum, length, kind = _HEAD.unpack_from(content, at)
        part = content[at + _HEAD.size : at + _HEAD.size + length]
        if len(part) < length or kind == 0:
            return
        if kind > _LAST or zlib.crc32(part, zlib.crc32(bytes([kind]))) != checksum:
            raise RunFileError(f"damaged at byte {at}")
        at += _HEAD.size + length
        if kind in (_FULL, _FIRST):
            parts, size = [], 0
        parts.append(part)
        size += length
        if size > _RECORD_BYTES:
            raise RunFileError(f"a record of more than {_RECORD_BYTES} bytes at byte {at}")
        if kind in (_FULL, _LAST):
            yield b"".join(parts)
            parts, size = [], 0
