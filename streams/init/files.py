"""Writes the files of a configuration into one directory, and leaves alone what a person has changed.

Nothing is written through a link, and every file is for this user alone: some hold a token.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from schemas.counting import how_many
from sinks.private_files import make_private_dir, read_private, write_private
from streams.errors import TrainfareError

STATE_FILE: Final = "init.json"
_FILE_BYTES_AT_MOST: Final = 4 * 2**20
_FORM: Final = 1
_DIFF_LINES_AT_MOST: Final = 200


class InitState(msgspec.Struct):
    """What is kept between two calls: digests of what was written, and the processes that were started."""

    form: int = _FORM
    written: dict[str, str] = {}
    #: Process ids, and the digest of the configuration that each was started with.
    started: dict[str, tuple[int, str]] = {}


class PlannedFile(NamedTuple):
    """A file by its name in the directory; one that `is_secret` is written once, and never shown."""

    name: str
    text: str
    is_secret: bool = False


class FileFate(StrEnum):
    """What becomes of a file."""

    new = "written"
    same = "unchanged"
    updated = "updated"  # nobody has changed it since it was written
    kept = "kept, as you changed it"


class FileChange(NamedTuple):
    """What becomes of a file, and how the text that is proposed differs from the one that is there."""

    file: PlannedFile
    fate: FileFate
    diff: Sequence[str]


def read_state(directory: Path) -> InitState:
    """What an earlier call has kept; nothing where there was none.

    Raises:
        SinkError: The file cannot be trusted.
        TrainfareError: It is not of this version.
    """
    found = read_private(directory / STATE_FILE, _FILE_BYTES_AT_MOST)
    if found is None:
        return InitState()
    try:
        state = msgspec.json.decode(found, type=InitState)
    except (msgspec.MsgspecError, ValueError):
        state = InitState(form=0)
    if state.form != _FORM:
        raise TrainfareError(
            f"{directory / STATE_FILE} is of another version of trainfare, or damaged; remove it: "
            "files that you changed are kept all the same"
        )
    return state


def write_state(directory: Path, state: InitState) -> None:
    """Keep it for the next call.

    Raises:
        SinkError: The system refused.
    """
    write_private(directory / STATE_FILE, msgspec.json.encode(state) + b"\n")


def changes(directory: Path, files: Sequence[PlannedFile], state: InitState) -> list[FileChange]:
    """What would become of each file; nothing is written.

    Raises:
        SinkError: A file cannot be trusted: it is a link, another user's, or others may write it.
    """
    return [_change(directory, file, state.written) for file in files]


def write_files(directory: Path, found: Sequence[FileChange], state: InitState) -> None:
    """Write what is new or nobody has changed, each as a whole or not at all, and note it in `state`.

    Raises:
        SinkError: The system refused; the files before are written.
    """
    make_private_dir(directory)
    for change in found:
        file = change.file
        path = directory / file.name
        if change.fate in (FileFate.new, FileFate.updated):
            if path.parent != directory:
                make_private_dir(path.parent)
            write_private(path, file.text.encode())
        if change.fate is not FileFate.kept:
            state.written[file.name] = _digest(file.text.encode())
        write_state(directory, state)


def text_in(directory: Path, name: str) -> str | None:
    """The text of a file that is there; None if it is not.

    Raises:
        SinkError: It cannot be trusted.
    """
    found = read_private(directory / name, _FILE_BYTES_AT_MOST)
    return None if found is None else found.decode("utf-8", "replace")


def _change(directory: Path, file: PlannedFile, written: Mapping[str, str]) -> FileChange:
    found = read_private(directory / file.name, _FILE_BYTES_AT_MOST)
    if found is None:
        return FileChange(file, FileFate.new, ())
    if file.is_secret or found == file.text.encode():
        return FileChange(file, FileFate.same, ())
    before = found.decode("utf-8", "replace").splitlines()
    diff = list(
        difflib.unified_diff(
            before,
            file.text.splitlines(),
            f"{file.name} (there)",
            f"{file.name} (proposed)",
            lineterm="",
            n=1,
        )
    )
    if len(diff) > _DIFF_LINES_AT_MOST:
        more = len(diff) - _DIFF_LINES_AT_MOST
        diff = [*diff[:_DIFF_LINES_AT_MOST], f"... and {how_many(more, 'more line')}"]
    is_ours = written.get(file.name) == _digest(found)
    return FileChange(file, FileFate.updated if is_ours else FileFate.kept, diff)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
