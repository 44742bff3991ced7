"""Which meters of this user run on this machine: each notes itself, so that commands find one that nobody names.

An entry only says where to look. It must not be trusted further than a directory that a user names: the directory's own
files say which process has it open, and at which address.
"""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from sinks.errors import SinkError
from sinks.private_files import make_private_dir, read_private, write_private

_MAX_BYTES: Final = 8_192
_WRITABLE_BY_OTHERS: Final = 0o022


class RunningMeter(msgspec.Struct, frozen=True):
    """A process that serves the API of a store; without a directory its store is a ClickHouse server."""

    url: str
    pid: int
    data_dir: str | None


def folder() -> Path:
    """Where this user's meters note themselves: not in the home, which several machines may share."""
    return Path(tempfile.gettempdir()) / f"trainfare-{os.geteuid()}"


def note(meter: RunningMeter) -> None:
    """Note a meter that has begun to serve; where that is not possible, it has to be named."""
    with suppress(SinkError, OSError):
        make_private_dir(folder())
        write_private(_entry(meter), msgspec.json.encode(meter) + b"\n")


def forget(meter: RunningMeter) -> None:
    """Remove the entry of a meter that stops."""
    with suppress(OSError):
        _entry(meter).unlink()


def running() -> list[RunningMeter]:
    """The entries of processes that live, in the order of their addresses."""
    where = folder()
    try:
        found = where.lstat()
        if found.st_uid != os.geteuid() or found.st_mode & _WRITABLE_BY_OTHERS or where.is_symlink():
            return []
        paths = [each for each in where.iterdir() if not each.name.startswith(".")]
    except OSError:
        return []
    meters = [meter for path in paths if (meter := _read(path)) is not None]
    return sorted(meters, key=lambda meter: meter.url)


def _read(path: Path) -> RunningMeter | None:
    try:
        content = read_private(path, _MAX_BYTES)
        meter = None if content is None else msgspec.json.decode(content, type=RunningMeter)
    except (SinkError, msgspec.DecodeError):
        return None
    if meter is not None and not _lives(meter.pid):
        forget(meter)  # it was killed
        return None
    return meter


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True  # of another user, say: whoever has the directory open decides
    return True


def _entry(meter: RunningMeter) -> Path:
    return folder() / f"{meter.pid}-{urlsplit(meter.url).port}.json"
