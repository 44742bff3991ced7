"""What the log asks of a file system; tests put one with faults in its place."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_FILE_MODE: Final = 0o600


class Disk:
    """The calls of one file system. Each may raise OSError."""

    def create(self, path: Path) -> int:
        """Create a file for this user alone and return its descriptor."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)

    def open(self, path: Path) -> int:
        """Open a file that exists."""
        return os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        """Write all of `data`; after a fault a part of it may be there."""
        view, written = memoryview(data), 0
        while written < len(view):
            written += os.pwrite(descriptor, view[written:], at + written)

    def sync(self, descriptor: int) -> None:
        """Return once the file's data and size survive a loss of power."""
        os.fdatasync(descriptor)

    def truncate(self, descriptor: int, size: int) -> None:
        """Cut a file."""
        os.ftruncate(descriptor, size)

    def sync_directory(self, path: Path) -> None:
        """Return once the names in a directory survive a loss of power."""
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        """Remove a file."""
        path.unlink()
