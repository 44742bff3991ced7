"""One process per data directory: an advisory lock that names its holder and ends with it.

It must not be deleted or judged by its contents: the kernel's lock decides, the text only informs. Nothing in the
directory is opened through a link: a link planted as the lock would have its target truncated.
"""

import fcntl
import os
import threading
from pathlib import Path
from typing import Final

from sinks.errors import SinkError, StoreInUse
from sinks.private_files import make_private_dir, open_private, read_private
from sinks.target import Embedded

LOCK_NAME: Final = "lock"
_HOLDER_MAX_BYTES: Final = 32


class _Held:
    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self.users = 1


# Stores of this process share one lock per directory: flock would refuse a second one.
_held: dict[Path, _Held] = {}
_guard: Final = threading.Lock()


def acquire(data_dir: Path) -> None:
    """Lock the directory for this process, creating it with mode 0700 or tightening its mode.

    Raises:
        StoreInUse: Another process has it.
        SinkError: It cannot be used: another user's, a link, or not writable.
    """
    path = data_dir.resolve()
    with _guard:
        held = _held.get(path)
        if held is not None:
            held.users += 1
            return
        descriptor = _open(data_dir)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            found = os.pread(descriptor, _HOLDER_MAX_BYTES, 0).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise StoreInUse(in_use(data_dir, f"process {found}")) from None
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        _held[path] = _Held(descriptor)


def release(data_dir: Path) -> None:
    """Release one use; the last one unlocks the directory."""
    path = data_dir.resolve()
    with _guard:
        held = _held[path]
        held.users -= 1
        if held.users == 0:
            del _held[path]
            os.close(held.descriptor)


def holder_of(data_dir: Path) -> int | None:
    """The process named in the lock; None if there is no lock or it names none."""
    try:
        return int(read_private(data_dir / LOCK_NAME, _HOLDER_MAX_BYTES) or b"")
    except ValueError:
        return None


def in_use(data_dir: Path, holder: str) -> str:
    """The message for a directory that another process has open."""
    return (
        f"{data_dir} is in use by {holder}; one process at a time may open it: "
        "stop that one first, or give another directory with --data"
    )


def _open(data_dir: Path) -> int:
    try:
        make_private_dir(data_dir)
        # The engine's own directory, too: it would create its files wherever a link leads.
        make_private_dir(Embedded(data_dir=data_dir).engine_dir)
        return open_private(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT)
    except SinkError as error:
        raise SinkError(f"cannot use {data_dir} for data: {error}, or name another with --data") from error
