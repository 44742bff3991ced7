"""Stores how far a collector has read its source, and what it has yet to say of that, so that a restart goes on there.

A crash leaves the former position or the new one, never a mixture; a position that is lost or old only means that events
are published again, which is harmless.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import msgspec

from streams.collect.collector import Position
from streams.errors import TrainfareError

_FORM: Final = 1


class _Stored(msgspec.Struct):
    form: int
    collector: str
    position: dict[str, Any]
    report: dict[str, Any] = {}  # of `SourceReport`


class PositionFile:
    """The position of one collector; held by one process at a time.

    Raises:
        TrainfareError: Another process holds it, or it cannot be read.
    """

    def __init__(self, path: Path, collector: str) -> None:
        self._path = path
        self._collector = collector
        self._lock: int | None = None
        self._stored: _Stored | None = None

    def __enter__(self) -> Self:
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as fault:
            raise TrainfareError(
                f"{self._path}: {fault.strerror}; name a file to write with --state"
            ) from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._lock)
            self._lock = None
            raise TrainfareError(
                f"{self._path} is in use by another collector; give each its own file with --state"
            ) from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def load(self) -> Position | None:
        """The stored position; None if there is none yet.

        Raises:
            TrainfareError: The file is not a position of this collector.
        """
        try:
            stored = msgspec.json.decode(self._path.read_bytes(), type=_Stored)
        except FileNotFoundError:
            return None
        except OSError as fault:
            raise TrainfareError(f"{self._path}: {fault.strerror}") from None
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise TrainfareError(
                f"{self._path} is no position of a collector; remove it to read the source from its beginning: equal "
                "events count once"
            ) from None
        if (stored.form, stored.collector) != (_FORM, self._collector):
            raise TrainfareError(
                f"{self._path} is of the collector {stored.collector} (form {stored.form}), expected {self._collector} "
                f"(form {_FORM}); name another file with --state"
            )
        self._stored = stored
        return stored.position

    @property
    def report(self) -> Mapping[str, Any]:
        """What `store_report` stored, as of the last `load`; empty if there is none."""
        return {} if self._stored is None else self._stored.report

    def store_report(self, report: Mapping[str, Any]) -> None:
        """Store what is known of the entries beside the position; before there is a position, nothing was read.

        Raises:
            TrainfareError: It cannot be written.
        """
        if self._stored is not None:
            self._write(_Stored(_FORM, self._collector, self._stored.position, dict(report)))

    def store(self, position: Position) -> None:
        """Replace the stored position.

        Raises:
            TrainfareError: It cannot be written.
        """
        self._write(_Stored(_FORM, self._collector, dict(position), dict(self.report)))

    def _write(self, stored: _Stored) -> None:
        temporary = Path(f"{self._path}.new")
        text = msgspec.json.encode(stored)
        try:
            with temporary.open("wb") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self._path)
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as fault:
            raise TrainfareError(f"{self._path} cannot be written: {fault.strerror}") from None
        self._stored = stored
