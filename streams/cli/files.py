"""Read the files that a user names: plain, gzip or zstd, line by line.

It must not guess: a file that cannot be read is named, with the reason, as wrong use.
"""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from streams.errors import WrongUseError


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1."""
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, start=1):
                text = line.strip()
                if text:
                    yield number, text
    except (OSError, EOFError, zstandard.ZstdError) as fault:
        raise WrongUseError(f"{path}: cannot be read: {_reason(fault)}; name a file of events") from None


def whole(path: Path) -> bytes:
    """Return the content."""
    try:
        with _opened(path) as file:
            return file.read()
    except (OSError, EOFError, zstandard.ZstdError) as fault:
        raise WrongUseError(f"{path}: cannot be read: {_reason(fault)}") from None


def must_exist(paths: list[Path]) -> None:
    """Refuse the first name that is no file, before anything is begun."""
    for path in paths:
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "no such file"
            raise WrongUseError(f"{path}: {what}; name a file of events (JSONL, optionally .gz or .zst)")


def _opened(path: Path) -> BinaryIO:
    if path.suffix == ".gz":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if path.suffix == ".zst":
        reader = zstandard.ZstdDecompressor().stream_reader(path.open("rb"), read_across_frames=True)
        return cast("BinaryIO", io.BufferedReader(reader))
    return path.open("rb")


def _reason(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
