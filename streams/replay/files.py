"""Reads event files as a sequence of lines with their position, and computes the digest that identifies their contents."""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from streams.errors import TrainfareError
from streams.packed import UNPACK_ERRORS, bounded_lines, open_packed


class FileLine(NamedTuple):
    """One line that is not blank; `number` counts from 1, including blank lines."""

    file: int
    number: int
    data: bytes
    is_whole: bool = True  # otherwise `data` is the head of a line that is too long


def read_lines(files: Sequence[Path]) -> Iterator[FileLine]:
    """Yield the lines of all files in order; compressed files are recognised by their suffix.

    Raises:
        TrainfareError: A file cannot be read to its end.
    """
    for index, path in enumerate(files):
        try:
            with open_packed(path) as stream:
                for number, data, is_whole in bounded_lines(stream):
                    if number == 1:
                        data = data.removeprefix(codecs.BOM_UTF8)  # some editors add it
                        if not data.strip():
                            continue
                    yield FileLine(index, number, data, is_whole)
        except UNPACK_ERRORS as fault:
            reason = getattr(fault, "strerror", None) or fault
            raise TrainfareError(f"{path} cannot be read to its end: {reason}") from fault


def digest(path: Path) -> str:
    """The digest of the file's bytes.

    Raises:
        TrainfareError: The file cannot be read.
    """
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as fault:
        raise TrainfareError(f"{path} cannot be read: {fault.strerror}") from fault
