"""Reads a folder of controls: every *.toml below it, by name, as one whole; what cannot be read is a fault like any other."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from schemas.counting import how_many
from streams.controls.file import TABLES_AT_MOST, TEXT_AT_MOST, FileContent, FileRecord, read_controls_file
from streams.errors import WrongUseError

FILES_AT_MOST: Final = 1_000
CONTROLS_AT_MOST: Final = 10_000
_SUFFIX: Final = ".toml"
_HIDDEN: Final = "."


class Folder(NamedTuple):
    """The controls of a folder; where there are faults, the records are those without one."""

    files: int
    records: list[FileRecord]
    faults: list[str]


def read_folder(folder: Path, source: str, now_ms: int) -> Folder:
    """The controls of all files below a folder; `source`: who publishes them.

    Raises:
        WrongUseError: There is no such folder, no file of controls in it, or too much.
    """
    if not folder.is_dir():
        what = "not a folder" if folder.exists() else "no such folder"
        raise WrongUseError(f"{folder}: {what}; name a folder with files of controls (TOML)")
    faults: list[str] = []
    files = sorted(_files(folder, faults))
    if not files and not faults:
        raise WrongUseError(f"{folder}: no file *{_SUFFIX} below it; name a folder with files of controls")
    if len(files) > FILES_AT_MOST:
        raise WrongUseError(f"{folder}: {how_many(len(files), 'file')} *{_SUFFIX}, {FILES_AT_MOST} at most")
    records: list[FileRecord] = []
    for file in files:
        try:
            found = _content(file, source, now_ms)
        except WrongUseError as fault:
            faults.append(str(fault))
        else:
            records += found.records
            faults += found.faults
        if len(records) > CONTROLS_AT_MOST:
            raise WrongUseError(f"{folder}: more than {CONTROLS_AT_MOST} controls")
    kinds = Counter(record.event.kind for record in records)
    if kinds["rule"] > TABLES_AT_MOST:
        faults.append(
            f"{folder}: {kinds['rule']} tables [[rule]], {TABLES_AT_MOST} at most; match by owner, team or label instead"
        )
    return Folder(len(files), records, [*faults, *_repeated(records)])


def _files(folder: Path, faults: list[str]) -> Iterator[Path]:
    """Yield each file below a folder; what is hidden is passed over, and a link to a folder is a fault.

    A link might lead back into the folder, or to what `--prune` would take for left out when it leads nowhere.
    """
    pending = [folder]  # no recursion: folders may be nested more deeply than calls
    while pending:
        at = pending.pop()
        try:
            with os.scandir(at) as entries:
                inside = [entry for entry in entries if not entry.name.startswith(_HIDDEN)]
        except OSError as fault:
            faults.append(f"{at}: cannot be read: {fault.strerror}")
            continue
        for entry in inside:
            path = at / entry.name
            if entry.is_dir(follow_symlinks=False):
                pending.append(path)
            elif _is(path.is_dir):
                faults.append(
                    f"{path}: a link to a folder, which is not followed; put the folder itself here"
                )
            elif entry.name.lower().endswith(_SUFFIX):
                if _is(path.is_file):
                    yield path
                else:
                    faults.append(f"{path}: no file that can be read, or a link to none; remove it")


def _is(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:  # a loop of links
        return False


def _content(file: Path, source: str, now_ms: int) -> FileContent:
    try:
        with file.open("rb") as opened:
            content = opened.read(TEXT_AT_MOST + 1)
    except OSError as fault:
        raise WrongUseError(f"{file}: cannot be read: {fault.strerror}") from None
    if len(content) > TEXT_AT_MOST:
        raise WrongUseError(f"{file}: more than {TEXT_AT_MOST} bytes; split it into several files")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        raise WrongUseError(f"{file} line {line}: not UTF-8 (byte 0x{content[fault.start]:02x})") from None
    # A name on disk need not be UTF-8, and what is printed for programs must be.
    name = os.fsencode(file).decode("utf-8", "backslashreplace")
    return read_controls_file(name, text, source, now_ms)


def _repeated(records: list[FileRecord]) -> Iterator[str]:
    first: dict[tuple[str, str], FileRecord] = {}
    for record in records:
        before = first.setdefault((record.event.kind, record.event.name), record)
        if before is not record:
            yield record.fault(f"name: {before.where} has a {record.event.kind} of this name, too")
