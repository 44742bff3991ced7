"""Writes and reads `api.json` in a data directory: the address of the worker that has it open."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from sinks.errors import SinkError
from sinks.private_files import read_private, write_private

FILE_NAME: Final = "api.json"
_MAX_BYTES: Final = 4096
#: Wildcard addresses, with the loopback address to connect to.
_EVERYWHERE: Final = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - compared with, not bound


class Endpoint(msgspec.Struct, frozen=True):
    """The process that serves a directory, and its address."""

    url: str
    pid: int


def url_of(bind: str, port: int) -> str:
    """The URL at which this machine reaches a server."""
    host = bind.strip("[]")
    host = _EVERYWHERE.get(host, host)
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announce(data_dir: Path, endpoint: Endpoint) -> None:
    """Write the file atomically, readable by this user only."""
    write_private(data_dir / FILE_NAME, msgspec.json.encode(endpoint) + b"\n")


def withdraw(data_dir: Path, pid: int) -> None:
    """Remove the file if it is still this process's."""
    with suppress(SinkError, FileNotFoundError):
        found = read(data_dir)
        if found is not None and found.pid == pid:
            (data_dir / FILE_NAME).unlink()


def read(data_dir: Path) -> Endpoint | None:
    """The content of the file; None if it is missing or invalid.

    Raises:
        SinkError: Another user may have written it: a token would be sent to the address in it.
    """
    found = read_private(data_dir / FILE_NAME, _MAX_BYTES)
    try:
        return None if found is None else msgspec.json.decode(found, type=Endpoint)
    except msgspec.DecodeError:
        return None
