"""A folder into which files come, one in each state, as an export writes them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from streams.collect.collector import Collector

STATE_MS = 60_000
_AGE_MS = 3_600_000


def lines_of(content: bytes) -> int:
    """Return how many lines a file has."""
    return len(content.splitlines())


class FilesWorld:
    """Files by name, in the order in which they come; a name that comes twice is the file written anew."""

    def __init__(
        self,
        directory: Path,
        files: Sequence[tuple[str, bytes]],
        open_collector: Callable[[list[str]], Collector],
        from_ms: int,
        entries_of: Callable[[bytes], int] = lines_of,
    ) -> None:
        """`entries_of`: how many entries a file has."""
        self._entries_of = entries_of
        self._folder, self._hidden = directory / "logs", directory / "away"
        self._folder.mkdir()
        self._files = files
        self._open = open_collector
        self._from_ms = from_ms
        self.states = len(files)

    def collector(self) -> Collector:
        return self._open([str(self._folder / "*")])

    def turn(self, state: int) -> int:
        """Show the files that had come by then; the suite plays the states more than once."""
        wanted = dict(self._files[: state + 1])
        folder = self._folder if self._folder.exists() else self._hidden
        for path in folder.iterdir():
            if path.name not in wanted:
                path.unlink()
        for number, (name, content) in enumerate(self._files[: state + 1]):
            path, at_s = folder / name, (self._from_ms + number * STATE_MS) / 1000
            if wanted[name] is content and not (path.exists() and path.stat().st_mtime == at_s):
                path.write_bytes(content)
                os.utime(path, (at_s, at_s))
        return self._from_ms + _AGE_MS + state * STATE_MS

    def entries(self, state: int) -> int:
        return sum(map(self._entries_of, dict(self._files[: state + 1]).values()))

    def go_away(self) -> None:
        self._folder.rename(self._hidden)

    def come_back(self) -> None:
        self._hidden.rename(self._folder)

    def close(self) -> None:
        pass
