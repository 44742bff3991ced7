"""What was read of each file: how many pieces, and a digest of them, so that a file that grew is read on.

A file that became another one, under a name that is known, is read from its beginning.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

import msgspec

from schemas.durations import DAY_MS
from streams.collect.collector import Position
from streams.collect.files.listing import FoundFile
from streams.errors import TrainfareError

#: A folder that is away for a while must not make its files new ones.
_REMEMBERED_DAYS: Final = 40


class ReadFile(msgspec.Struct):
    """One file; `size_bytes` and `modified_ns` are those at which it was read to its end, 0 before that."""

    inode: int
    done: int = 0  # pieces
    digest: str = ""  # of them
    size_bytes: int = 0
    modified_ns: int = 0
    day: int = 0  # when it was last seen, in days since 1970

    def is_read(self, file: FoundFile) -> bool:
        """Whether nothing changed since it was read to its end."""
        return (self.size_bytes, self.modified_ns) == (file.size_bytes, file.modified_ns)


class FileProgress:
    """All files that were read, by path, at one poll."""

    def __init__(self, read: dict[str, ReadFile], files: Collection[FoundFile], now_ms: int) -> None:
        self._today = now_ms // DAY_MS
        inodes = {file.path: file.inode for file in files}
        paths = {file.inode: file.path for file in files}
        known = [(path, each) for path, each in read.items() if each.day >= self._today - _REMEMBERED_DAYS]
        renamed = {
            paths[each.inode]: each
            for path, each in known
            if each.inode in paths and inodes.get(path) != each.inode
        }
        moved = {id(each) for each in renamed.values()}
        self._files = {path: each for path, each in known if id(each) not in moved} | renamed

    @classmethod
    def of(cls, position: Position | None, files: Collection[FoundFile], now_ms: int) -> FileProgress:
        """A copy of what a position says, for the files that there are now.

        Raises:
            TrainfareError: Another kind of collector stored the position.
        """
        stored: Any = {} if position is None else position.get("files")
        try:
            return cls(msgspec.convert(stored, dict[str, ReadFile]), files, now_ms)
        except msgspec.ValidationError:
            raise TrainfareError(
                "the stored position names no files; remove the file of --state to read all of them"
            ) from None

    def position(self) -> dict[str, Any]:
        """Copy it into a position to store; later polls do not change the copy."""
        return {"files": msgspec.to_builtins(self._files)}

    def of_file(self, file: FoundFile) -> ReadFile:
        """What is known of a file, under its former name where it was renamed."""
        known = self._files.setdefault(file.path, ReadFile(file.inode))
        known.inode, known.day = file.inode, self._today
        return known
