"""Event files as a sequence of lines with their place, and the digest that names their contents.

It must not interpret a line.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streams.errors import TrainfareError
from streams.replay.packed import UNPACK_ERRORS, bounded_lines, open_packed


class FileLine(NamedTuple):
    """One line that is not blank; `number` counts from 1, blank lines too."""

    file: int
    number: int
    data: bytes
    is_whole: bool = True  # else `data` is the head of a line that is too long


def read_lines(files: Sequence[Path]) -> Iterator[FileLine]:
    """Yield the lines of all files, one after the other; compressed ones by their ending."""
    for index, path in enumerate(files):
        try:
            with open_packed(path) as stream:
                for number, data, is_whole in bounded_lines(stream):
                    if number == 1:
                        data = data.removeprefix(codecs.BOM_UTF8)  # some editors put it there
                        if not data.strip():
                            continue
                    yield FileLine(index, number, data, is_whole)
        except UNPACK_ERRORS as fault:
            reason = getattr(fault, "strerror", None) or fault
            raise TrainfareError(f"{path} cannot be read to its end: {reason}") from fault


def digest(path: Path) -> str:
    """Name the file's bytes."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise TrainfareError(f"{path} cannot be read: {fault.strerror}") from fault
