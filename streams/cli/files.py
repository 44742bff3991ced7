"""Reads files named by the user: plain, gzip or zstd, line by line; writes new ones as a whole.

A file that cannot be read, or has a line that is too long, is reported as wrong use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Final

from schemas.counting import how_many
from streams.errors import TrainfareError, WrongUseError
from streams.frames import CutShortError, check_whole
from streams.packed import LINE_MAX_BYTES, UNPACK_ERRORS, bounded_lines, open_packed

WHOLE_MAX_BYTES: Final = 64 * 2**20
"""Limit of a file that is read as a whole, decompressed."""

PARTS_MAX: Final = 1_000
"""Files of one folder that a command takes as parts."""


def numbered_lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each line that is not blank, with its number from 1.

    Raises:
        WrongUseError: The file cannot be read.
    """
    try:
        with open_packed(path) as file:
            for number, line, is_whole in bounded_lines(file):
                if not is_whole:
                    raise _too_long(path, number)
                yield number, line.strip()
    except UNPACK_ERRORS as fault:
        raise WrongUseError(f"{path}: cannot be read: {_reason(fault)}; name a file of events") from None


def read_bounded(path: Path) -> bytes:
    """The content.

    Raises:
        WrongUseError: The file cannot be read, is too large, or has a line that is too long.
    """
    try:
        with open_packed(path) as file:
            content = file.read(WHOLE_MAX_BYTES + 1)
    except UNPACK_ERRORS as fault:
        raise WrongUseError(f"{path}: cannot be read: {_reason(fault)}") from None
    if len(content) > WHOLE_MAX_BYTES:
        raise WrongUseError(
            f"{path}: more than {WHOLE_MAX_BYTES} bytes unpacked; split it into several files"
        )
    begin = 0
    while len(content) - begin > LINE_MAX_BYTES:
        end = content.rfind(b"\n", begin, begin + LINE_MAX_BYTES + 1)
        if end < 0:
            raise _too_long(path, content.count(b"\n", 0, begin) + 1)
        begin = end + 1
    return content


def _too_long(path: Path, line: int) -> WrongUseError:
    return WrongUseError(f"{path} line {line}: longer than {LINE_MAX_BYTES} bytes; write one record a line")


def with_parts(
    paths: list[Path], endings: tuple[str, ...], wanted: str, passed_over: str = "\0"
) -> list[Path]:
    """The paths, in the place of a folder all files below it with one of these endings, by name, but for those that end in `passed_over`.

    What is hidden is passed over: others write there before a file has its name.

    Raises:
        WrongUseError: A folder has no such file, or too many.
    """
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        parts = sorted(
            part
            for part in path.rglob("*")
            if part.name.lower().endswith(endings)
            and not part.name.lower().endswith(passed_over)
            and part.is_file()
            and not any(name.startswith((".", "_")) for name in part.relative_to(path).parts)
        )
        if not 0 < len(parts) <= PARTS_MAX:
            raise WrongUseError(
                f"{path}: {how_many(len(parts), 'file')} with {', '.join(endings)}, expected 1 to {PARTS_MAX}; {wanted}"
            )
        found += parts
    return found


_EVENTS: Final = "name a file of events (JSONL, optionally .gz or .zst)"


def must_exist(paths: list[Path], wanted: str = _EVENTS) -> None:
    """Check all files before anything is started.

    Raises:
        WrongUseError: There is no such file, or it is not compressed as its name indicates.
        TrainfareError: Its compressed data are truncated.
    """
    for path in paths:
        if not path.is_file():
            what = "is a directory" if path.is_dir() else "no such file"
            raise WrongUseError(f"{path}: {what}; {wanted}")
    for path in paths:
        try:
            check_whole(path)
        except CutShortError as fault:
            raise TrainfareError(f"{path} cannot be read to its end: {_reason(fault)}") from None
        except UNPACK_ERRORS as fault:
            raise WrongUseError(f"{path}: cannot be read: {_reason(fault)}; {wanted}") from None


def must_be_new(out: Path, option: str = "--out") -> None:
    """Check that nothing would be overwritten, nor written through a link; `-` is stdout.

    Raises:
        WrongUseError: There is something of this name.
    """
    if str(out) != "-" and os.path.lexists(out):
        raise WrongUseError(f"{option} {out}: exists; name a new file, or remove it first")


def write_new(out: Path, write: Callable[[IO[bytes]], object], option: str = "--out") -> None:
    """Write a new file, as a whole or not at all; `option` names it in messages.

    Raises:
        WrongUseError: There is something of this name.
        TrainfareError: It cannot be written.
    """
    must_be_new(out, option)
    part = out.with_name(f"{out.name}.{os.getpid()}.part")
    try:
        try:
            with part.open("xb") as file:
                write(file)
            part.replace(out)
        finally:
            part.unlink(missing_ok=True)
    except OSError as fault:
        raise TrainfareError(f"{option} {out}: cannot be written: {fault.strerror or fault}") from None


def _reason(fault: Exception) -> str:
    return (fault.strerror if isinstance(fault, OSError) else None) or str(fault)
