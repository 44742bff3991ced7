"""`api.json` in a data directory: where the worker that has it open can be asked.

It must not hold a secret, nor be believed by itself: whoever reads it compares the process with the lock's.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

FILE_NAME: Final = "api.json"
#: Addresses that mean every one; they are asked at a loopback address.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}


class Endpoint(msgspec.Struct, frozen=True):
    """Who serves a directory, and where."""

    url: str
    pid: int


def url_of(bind: str, port: int) -> str:
    """The address at which this machine reaches a server."""
    host = bind.strip("[]")
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announce(data_dir: Path, endpoint: Endpoint) -> None:
    """Write the file, whole or not at all."""
    path = data_dir / FILE_NAME
    draft = path.with_suffix(".tmp")
    draft.write_bytes(msgspec.json.encode(endpoint) + b"\n")
    draft.replace(path)


def withdraw(data_dir: Path, pid: int) -> None:
    """Remove the file, if it is still this process's."""
    found = read(data_dir)
    if found is not None and found.pid == pid:
        with suppress(FileNotFoundError):
            (data_dir / FILE_NAME).unlink()


def read(data_dir: Path) -> Endpoint | None:
    """What the file says; None without one that can be read."""
    try:
        return msgspec.json.decode((data_dir / FILE_NAME).read_bytes(), type=Endpoint)
    except (OSError, msgspec.DecodeError):
        return None
