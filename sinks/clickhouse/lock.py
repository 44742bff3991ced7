"""One process per data directory: an advisory lock that names its holder and ends with it.

It must not be deleted or judged by its contents: the kernel's lock decides, the text only informs.
"""

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from sinks.errors import SinkError, StoreInUse

LOCK_NAME: Final = "lock"


class _Held:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1


# Stores of this process share one lock per directory: flock would refuse a second one of our own.
_held: dict[Path, _Held] = {}
_guard: Final = threading.Lock()


def acquire(data_dir: Path) -> None:
    """Take the directory for this process, creating it; raise StoreInUse if another one has it."""
    path = data_dir.resolve()
    with _guard:
        held = _held.get(path)
        if held is not None:
            held.users += 1
            return
        descriptor = _open(path)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.pread(descriptor, 32, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreInUse(in_use(data_dir, f"process {holder}")) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held[path] = _Held(descriptor)


def release(data_dir: Path) -> None:
    """Give one use back; the last one frees the directory."""
    path = data_dir.resolve()
    with _guard:
        held = _held[path]
        held.users -= 1
        if held.users == 0:
            del _held[path]
            os.close(held.descriptor)


def in_use(data_dir: Path, holder: str) -> str:
    """The message for a directory that another process has open."""
    return (
        f"{data_dir} is in use by {holder}; one process at a time may open it: "
        "stop that one first, or give another directory with --data"
    )


def _open(path: Path) -> int:
    try:
        path.mkdir(parents=True, exist_ok=True)
        return os.open(path / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise SinkError(
            f"cannot use {path} for data: {error.strerror}; give a directory that can be written with --data"
        ) from error
