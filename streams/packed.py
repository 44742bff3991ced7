"""Reads possibly compressed files by lines of bounded length: memory stays small whatever the file expands to."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final, NamedTuple

import zstandard

from streams.frames import check_zstd

LINE_MAX_BYTES: Final = 2**20
#: This much is retained of a line that is too long.
HEAD_BYTES: Final = 1_024
#: A zstd frame may require gigabytes of memory; up to level 19 the program requires at most this.
_WINDOW_BYTES: Final = 2**23
_BUFFER_BYTES: Final = 2**16
#: Exceptions that reading such a file may raise.
UNPACK_ERRORS: Final = (OSError, EOFError, zlib.error, zstandard.ZstdError)


class NumberedLine(NamedTuple):
    """A line that is not blank; `number` counts from 1, including blank lines."""

    number: int
    data: bytes
    is_whole: bool  # otherwise `data` is its head, and the line is longer than LINE_MAX_BYTES


def open_packed(path: Path) -> IO[bytes]:
    """Open a file for reading; decompress .gz and .zst.

    Raises:
        CutShortError: It is truncated.
        OSError, zstandard.ZstdError: It cannot be read.
    """
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"), _BUFFER_BYTES)
    if path.suffix == ".zst":
        unpacker = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES)
        file = path.open("rb")
        try:
            check_zstd(path, file)  # the library treats the end of the file as the end of a frame
        except BaseException:
            file.close()
            raise
        reader = unpacker.stream_reader(file, read_across_frames=True, closefd=True)
        return io.BufferedReader(reader, _BUFFER_BYTES)
    return path.open("rb")


def bounded_lines(stream: IO[bytes]) -> Iterator[NumberedLine]:
    """Yield the lines of a stream; of a line that is too long only the head, after skipping the rest."""
    number = 0
    while data := stream.readline(LINE_MAX_BYTES + 2):
        number += 1
        if len(data) <= LINE_MAX_BYTES:
            if data.strip():
                yield NumberedLine(number, data, is_whole=True)
            continue
        is_whole, is_blank = len(data.rstrip(b"\r\n")) <= LINE_MAX_BYTES, not data.strip()
        if not data.endswith(b"\n"):
            rest_is_empty, rest_is_blank = _pass_over(stream)
            is_whole, is_blank = is_whole and rest_is_empty, is_blank and rest_is_blank
        if not is_blank:
            yield NumberedLine(number, data if is_whole else data[:HEAD_BYTES], is_whole)


def _pass_over(stream: IO[bytes]) -> tuple[bool, bool]:
    """Skip to the end of the line, in slices; return whether only the line end was left, and whether all was blank."""
    is_empty = is_blank = True
    while rest := stream.readline(_BUFFER_BYTES):
        is_empty = is_empty and not rest.rstrip(b"\r\n")
        is_blank = is_blank and not rest.strip()
        if rest.endswith(b"\n"):
            break
    return is_empty, is_blank
