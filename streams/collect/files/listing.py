"""Finds the files that patterns name."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from streams.collect.collector import SourceUnavailableError
from streams.collect.files.options import FileOptions

_WILD: Final = frozenset("*?[")


class FoundFile(NamedTuple):
    """A file as it was when it was looked for."""

    path: str
    inode: int
    size_bytes: int
    modified_ns: int


def found_files(options: FileOptions, now_ms: int) -> list[FoundFile]:
    """The files that have settled, by the time of their last change.

    Raises:
        SourceUnavailableError: The folder of a pattern is missing, a named file is, or there are too many files.
    """
    found: dict[str, FoundFile] = {}
    for pattern in options.files:
        for path in _checked_paths(pattern):
            if len(found) >= options.max_files and path not in found:
                raise SourceUnavailableError(
                    f"{pattern}: more than {options.max_files} files; move those that were read away, or raise "
                    "max_files"
                )
            seen = _seen(path)
            if seen is not None:
                found[path] = seen
    newest_ns = round((now_ms / 1000 - options.min_file_age_s) * 1e9)
    settled = [file for file in found.values() if file.modified_ns <= newest_ns]
    return sorted(settled, key=lambda file: (file.modified_ns, file.path))


def _checked_paths(pattern: str) -> Iterator[str]:
    try:
        yield from _paths(pattern)
    except OSError as fault:
        raise SourceUnavailableError(f"{pattern[:200]}: {fault.strerror}") from None


def _paths(pattern: str) -> Iterator[str]:
    path = Path(pattern)
    if path.is_dir():
        pattern = os.path.join(glob.escape(pattern), "**")  # noqa: PTH118 - a pattern, not a path
    elif path.exists() or _WILD.isdisjoint(pattern):
        yield _existing(path)
        return
    else:
        base = base_of(pattern)
        if not base.is_dir():
            raise SourceUnavailableError(f"{base}: no such folder; it stands in the pattern {pattern}")
    yield from glob.iglob(pattern, recursive=True)  # noqa: PTH207 - patterns may be absolute


def _existing(path: Path) -> str:
    if not path.exists():
        raise SourceUnavailableError(f"{path}: no such file")
    return str(path)


def base_of(pattern: str) -> Path:
    """The folder in which all files of a pattern are: what stands before its first wildcard."""
    parts: Sequence[str] = Path(pattern).parts
    fixed = next((at for at, part in enumerate(parts) if not _WILD.isdisjoint(part)), len(parts) - 1)
    return Path(*parts[:fixed])


def _seen(path: str) -> FoundFile | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None  # it went away, or may not be looked at
    if not stat.S_ISREG(status.st_mode):
        return None
    return FoundFile(path, status.st_ino, status.st_size, status.st_mtime_ns)
