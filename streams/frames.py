"""Checks that a compressed file is complete: one truncated between two blocks decompresses without an error to fewer records.

The frames of zstd are walked by their block headers without decompression (RFC 8878, section 3.1).
"""

from __future__ import annotations

import gzip
import os
from pathlib import Path
from typing import IO, Final

import zstandard

_HEADER_MAX_BYTES: Final = 18
_SKIPPABLE: Final = range(0x184D2A50, 0x184D2A60)
_MAGICS: Final = (zstandard.FRAME_HEADER, *(number.to_bytes(4, "little") for number in _SKIPPABLE))
_CHECKSUM_BYTES: Final = 4
_RLE: Final = 1
_READ_BYTES: Final = 2**20


class CutShortError(OSError):
    """The file ends before the compressed data do."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path.name} is cut short: its compressed data end early; write or fetch the file anew"
        )


def check_whole(path: Path) -> None:
    """Check that a .zst or .gz file extends to the end of its last frame; any other file is complete.

    Raises:
        CutShortError: It is truncated.
        OSError, EOFError, zlib.error, zstandard.ZstdError: It cannot be read, or has another format.
    """
    if path.suffix == ".zst":
        with path.open("rb") as file:
            check_zstd(path, file)
    elif path.suffix == ".gz":
        try:
            with gzip.open(path, "rb") as stream:  # only decompression finds the end of a member
                while stream.read(_READ_BYTES):
                    pass
        except EOFError:
            raise CutShortError(path) from None


def check_zstd(path: Path, file: IO[bytes]) -> None:
    """Walk the frames of an open file and return to its beginning.

    Raises:
        CutShortError: A frame does not end within the file.
        zstandard.ZstdError: There is no frame at the beginning or after a frame.
    """
    size_bytes = file.seek(0, os.SEEK_END)
    at = 0
    while at < size_bytes:
        file.seek(at)
        at = _end_of_frame(path, file, at)
        if at > size_bytes:
            raise CutShortError(path)
    file.seek(0)


def _end_of_frame(path: Path, file: IO[bytes], at: int) -> int:
    head = file.read(_HEADER_MAX_BYTES)
    if int.from_bytes(head[:4], "little") in _SKIPPABLE:
        if len(head) < 8:
            raise CutShortError(path)
        return at + 8 + int.from_bytes(head[4:8], "little")
    try:
        at += zstandard.frame_header_size(head)
        has_checksum = zstandard.get_frame_parameters(head).has_checksum
    except zstandard.ZstdError:
        if len(head) < _HEADER_MAX_BYTES and any(magic.startswith(head[:4]) for magic in _MAGICS):
            raise CutShortError(path) from None
        raise
    is_last = False
    while not is_last:
        file.seek(at)
        header = file.read(3)
        if len(header) < 3:
            raise CutShortError(path)
        block = int.from_bytes(header, "little")
        is_last, kind, content_bytes = bool(block & 1), block >> 1 & 3, block >> 3
        at += 3 + (1 if kind == _RLE else content_bytes)
    return at + (_CHECKSUM_BYTES if has_checksum else 0)
