"""Events on disk until the endpoint has them, so that neither an outage nor a killed process loses any.

A file for each process, locked as long as it lives; the next process takes what a dead one left. Each line is
the CRC-32 of an event, a space and the event.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import threading
import time
import uuid
import zlib
from pathlib import Path

try:
    import fcntl
except ImportError:  # no Unix, and no spool there
    fcntl = None  # type: ignore[assignment]  # its absence is asked for below

SPOOL_BYTES = 64 * 2**20
EVENT_BYTES = 64 * 2**10
_CHUNK_BYTES = 2**20
_SUFFIX = ".spool"
#: What heartbeats and samples may fill; the rest is for starts, checkpoints and ends.
_DISPENSABLE_SHARE = 0.8
_LOOK_AGAIN = 200
#: A file that was read so far is finished, and removed when it is read to its end.
_FULL_BYTES = 4 * 2**20


class _File:
    """One file of events, locked by this process."""

    def __init__(self, path: Path, descriptor: int, size: int) -> None:
        self.path = path
        self.descriptor = descriptor
        self.size = size
        self.read_to = 0  #: before this, the endpoint has it

    def close(self) -> None:
        # First forgotten, then closed: a fork in between must not close what has the number by then.
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            with contextlib.suppress(OSError):
                os.close(descriptor)

    def remove(self) -> None:
        with contextlib.suppress(OSError):
            self.path.unlink()
        self.close()


class Spool:
    """The events of one endpoint that are on disk. One thread may append while another one takes."""

    def __init__(self, folder: Path, url: str, spool_bytes: int = SPOOL_BYTES) -> None:
        """`url`: where the events belong; those of other endpoints are left alone."""
        self._folder = folder
        self._prefix = hashlib.sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:12] + "-"
        self._spool_bytes = spool_bytes
        self._lock = threading.RLock()
        self._read: list[_File] = []  # what dead processes left, then full files of this one
        self._own: _File | None = None
        self._taken: tuple[_File, int] | None = None
        self._others_bytes = self._appended = 0
        self._is_closed = False
        self.damaged = 0  #: lines that could not be read

    def open(self) -> None:
        """Take what dead processes left.

        Raises:
            OSError: The folder cannot be made, or is another user's.
        """
        with self._lock:
            if fcntl is None:
                raise OSError("no file locks on this system")
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._folder.stat().st_uid != os.getuid():
                raise OSError("the spool is another user's folder")
            for path in sorted(self._folder.glob(self._prefix + "*" + _SUFFIX)):
                if (found := _locked(path, os.O_RDWR)) is not None:
                    self._read.append(found)

    def append(self, event: bytes, *, is_dispensable: bool) -> bool:
        """Whether there was room for an event."""
        line = b"%08x %s\n" % (zlib.crc32(event), event)
        with self._lock:
            own = self._opened()
            room = self._spool_bytes * (_DISPENSABLE_SHARE if is_dispensable else 1.0)
            if own is None or self._used(own) + len(line) > room:
                return False
            try:
                written = os.pwrite(own.descriptor, line, own.size)
            except OSError:
                written = 0
            if written < len(line):
                with contextlib.suppress(OSError):  # what was torn is written over, or its checksum is wrong
                    os.ftruncate(own.descriptor, own.size)
                return False
            own.size += len(line)
            return True

    def has_any(self) -> bool:
        """Whether anything waits here. It never waits for the disk."""
        return any(file.read_to < file.size for file in self._files())

    def take(self, count: int) -> list[bytes]:
        """The oldest events, at most so many; they stay until `taken_is_done`."""
        with self._lock:
            for file in self._files():
                while file.read_to < file.size:
                    events, read_to = self._events_of(file, count)
                    self._taken = (file, read_to)
                    if events:
                        return events
                    self.taken_is_done()
            return []

    def taken_is_done(self) -> None:
        """Forget what `take` returned last."""
        with self._lock:
            if self._taken is None or self._is_closed:
                return
            file, read_to = self._taken
            file.read_to, self._taken = read_to, None
            if file is self._own and file.read_to >= file.size:
                with contextlib.suppress(OSError):
                    os.ftruncate(file.descriptor, 0)
                    file.size = file.read_to = 0
            elif file is self._own and file.read_to > _FULL_BYTES:
                self._read.append(file)
                self._own = None
            elif file is not self._own and file.read_to >= file.size:
                self._read.remove(file)
                file.remove()

    def close(self) -> None:
        """Leave what is not done for the next process."""
        with self._lock:
            self._is_closed = True
            for file in self._files():
                if file.read_to >= file.size:
                    file.remove()
                else:
                    file.close()
            self._read, self._own = [], None

    def abandon(self) -> None:
        """Close the files of the process that this one was forked from; their locks stay with it."""
        for file in self._files():
            file.close()
        self._read, self._own = [], None

    def _files(self) -> list[_File]:
        own = self._own
        return [*self._read, *([own] if own is not None else [])]

    def _opened(self) -> _File | None:
        if self._own is None and not self._is_closed:
            name = f"{self._prefix}{time.time_ns():020d}-{uuid.uuid4().hex[:12]}{_SUFFIX}"
            self._own = _locked(self._folder / name, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        return self._own

    def _used(self, own: _File) -> int:
        """Bytes of all files of the folder: another process's count too, looked at now and then."""
        if self._appended % _LOOK_AGAIN == 0:
            self._others_bytes = 0
            for path in self._folder.glob("*" + _SUFFIX):
                with contextlib.suppress(OSError):
                    self._others_bytes += path.stat().st_size if path != own.path else 0
        self._appended += 1
        return self._others_bytes + own.size

    def _events_of(self, file: _File, count: int) -> tuple[list[bytes], int]:
        """Events from where the file was read to, and where it is read to then."""
        try:
            chunk = os.pread(file.descriptor, min(_CHUNK_BYTES, file.size - file.read_to), file.read_to)
        except OSError:
            chunk = b""
        end = chunk.rfind(b"\n") + 1
        if not end:  # torn at its end, or no file of ours
            self.damaged += 1
            return [], file.read_to + len(chunk) if chunk else file.size
        events: list[bytes] = []
        read_to = file.read_to
        for line in chunk[: end - 1].split(b"\n"):
            if len(events) >= count:
                break
            read_to += len(line) + 1
            event = _event_of(line)
            if event is None:
                self.damaged += 1
            else:
                events.append(event)
        return events, read_to


def _event_of(line: bytes) -> bytes | None:
    """The event of a line, None if its checksum is wrong."""
    checksum, _, event = line.partition(b" ")
    return event if len(event) <= EVENT_BYTES and checksum == b"%08x" % zlib.crc32(event) else None


def _locked(path: Path, flags: int) -> _File | None:
    """Open a file, None if a living process has it or it is no file of this user."""
    try:
        descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        if status.st_nlink == 1 and status.st_uid == os.getuid():
            return _File(path, descriptor, status.st_size)
    except OSError:
        pass
    os.close(descriptor)
    return None
