"""Event files as a sequence of lines with their place, and the digest that names their contents.

It must not interpret a line.
"""

from __future__ import annotations

import codecs
import gzip
import hashlib
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

import zstandard

from streams.errors import TrainfareError


class Line(NamedTuple):
    """One line that is not blank; `number` counts from 1, blank lines too."""

    file: int
    number: int
    data: bytes


def read_lines(files: Sequence[Path]) -> Iterator[Line]:
    """Yield the lines of all files, one after the other; compressed ones by their ending."""
    for index, path in enumerate(files):
        try:
            with _open(path) as stream:
                for number, data in enumerate(stream, 1):
                    if number == 1:
                        data = data.removeprefix(codecs.BOM_UTF8)  # some editors put it there
                    if data.strip():
                        yield Line(index, number, data)
        except (OSError, EOFError, gzip.BadGzipFile, zstandard.ZstdError) as fault:
            reason = getattr(fault, "strerror", None) or fault
            raise TrainfareError(f"{path} cannot be read to its end: {reason}") from fault


def digest(path: Path) -> str:
    """Name the file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise TrainfareError(f"{path} cannot be read: {fault.strerror}") from fault


def _open(path: Path) -> IO[bytes]:
    if path.suffix == ".gz":
        return io.BufferedReader(gzip.open(path, "rb"))
    if path.suffix == ".zst":
        raw = path.open("rb")
        reader = zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True, closefd=True)
        return io.BufferedReader(reader)
    return path.open("rb")
