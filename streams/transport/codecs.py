"""Decompresses record batches within a memory limit.

41 kB can expand to 950 MB: nothing here allocates what the data claim, or all that they contain. The codecs
are aiokafka's (cramjam), zlib and zstandard.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import zstandard
from aiokafka import codec as of_aiokafka
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError

from streams.gzip_members import TooLargeError, unpacked

#: Limit of the records of one batch: brokers accept batches of 1 MiB by default, compressed.
MOST_BYTES: Final = 64 * 2**20
_SLICE_BYTES: Final = 2**20
#: Highest possible expansion of LZ4.
_LZ4_RATIO: Final = 255
_XERIAL_HEADER: Final = 16
#: Limit of the window of a zstd frame, as in its own library.
_WINDOW_BYTES: Final = 2**27

_cramjam: Final[Any] = of_aiokafka.cramjam


def decode(codec: int, piece: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """The decompressed records.

    Raises:
        TooLargeError: They exceed `most_bytes`.
        UnsupportedCodecError: The codec is unknown.
        CorruptRecordException: The data are invalid.
    """
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise UnsupportedCodecError(f"Unknown compression codec {codec:#04x}")
    try:
        return decoder(piece, most_bytes)
    except TooLargeError:
        raise
    except Exception as fault:  # each library has its own errors
        raise CorruptRecordException(f"a batch cannot be decompressed: {fault}") from fault


def _snappy(piece: bytes, most_bytes: int) -> bytes:
    if not of_aiokafka._detect_xerial_stream(piece):
        return _snappy_block(piece, most_bytes)
    found: list[bytes] = []
    at, room = _XERIAL_HEADER, most_bytes
    while at < len(piece):
        (size,) = struct.unpack_from("!i", piece, at)
        found.append(_snappy_block(piece[at + 4 : at + 4 + size], room))
        room -= len(found[-1])
        at += 4 + max(size, 0)
    return b"".join(found)


def _snappy_block(block: bytes, most_bytes: int) -> bytes:
    if _cramjam.snappy.decompress_raw_len(block) > most_bytes:
        raise TooLargeError
    return bytes(_cramjam.snappy.decompress_raw(block))


def _lz4(piece: bytes, most_bytes: int) -> bytes:
    if len(piece) * _LZ4_RATIO <= most_bytes:
        return bytes(_cramjam.lz4.decompress(piece))
    room = np.empty(most_bytes + 1, np.uint8)  # virtual memory: only written pages exist
    try:
        size = _cramjam.lz4.decompress_into(piece, room)
    except _cramjam.DecompressionError as fault:
        if "whole buffer" in str(fault):
            raise TooLargeError from None
        raise
    if size > most_bytes:
        raise TooLargeError
    return room[:size].tobytes()


def _zstd(piece: bytes, most_bytes: int) -> bytes:
    found: list[bytes] = []
    room = most_bytes
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
    with decompressor.stream_reader(piece, read_across_frames=True) as reader:
        while part := reader.read(_SLICE_BYTES):
            found.append(part)
            room -= len(part)
            if room < 0:
                raise TooLargeError
    return b"".join(found)


_DECODERS: Final[dict[int, Callable[[bytes, int], bytes]]] = {1: unpacked, 2: _snappy, 3: _lz4, 4: _zstd}
