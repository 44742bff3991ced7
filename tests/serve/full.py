"""`trainfare` on a disk that has no room for the log while a file named `full` lies beside it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

from streams.cli import main as command
from streams.segmented_log.disk import Disk

MARK = "full"


def main(words: Sequence[str]) -> None:
    """Fill up as a disk does: a part of a write is there."""
    write = Disk.write

    def written(self: Disk, descriptor: int, data: bytes, at: int) -> None:
        path = Path(f"/proc/self/fd/{descriptor}").readlink()
        if (path.parents[1] / MARK).exists():
            write(self, descriptor, data[: len(data) // 2], at)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, descriptor, data, at)

    Disk.write = written  # type: ignore[method-assign]  # of this process alone
    command.main(words)
