"""The log of one meter in a directory: events, which are dropped after a while, and prices and controls, which stay.

One process at a time may write.
"""

from __future__ import annotations

import fcntl
import os
import re
import secrets
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Final

import msgspec

from sinks.private_files import make_private_dir, open_private, read_private, write_private
from streams.clock import Clock
from streams.segmented_log.append_clock import AppendClock
from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogError, LogInUseError
from streams.segmented_log.frames import Place
from streams.segmented_log.group_commit import Batches, GroupCommit
from streams.segmented_log.log import LogOptions, SegmentedLog

DIRECTORY: Final = "log"
EVENTS: Final = "events"
REFERENCE: Final = "reference"
_LOCK: Final = "lock"
_IDENTITY: Final = "identity.json"
_FORMAT: Final = 1
_ID_BYTES: Final = 16
#: The end of the name by which a store knows a log on disk; the id of a cluster of Kafka is shorter, and no hex number.
_ON_DISK: Final = re.compile(rf" [0-9a-f]{{{2 * _ID_BYTES}}}")
_FILE_MAX_BYTES: Final = 4_096


def lacks_log(data: Path, log: str) -> bool:
    """Whether a store in a data directory was made from a log on disk (`log` of its metadata) that is not beside it."""
    return _ON_DISK.search(log[-2 * _ID_BYTES - 1 :]) is not None and not (data / DIRECTORY).exists()


def how_to_go_on(data: Path) -> str:
    """What a store needs that lacks its log."""
    return (
        f"copy the folder `{DIRECTORY}` of the directory that was backed up, which a backup of the tables does not contain: "
        f"cp -a DIR/{DIRECTORY} {data}/"
    )


class _Identity(msgspec.Struct):
    """Written once: a store belongs to one log."""

    id: str
    partitions: int
    format: int = _FORMAT


class LogDirectory:
    """The log of a data directory, open for writing.

    Args:
        data: The data directory; the log is in its folder `log`.
        partitions: Of each topic of events.
        reference_topics: Whose records are never dropped.
        options: Of the events.
        clock: For append times.
        on_append: Called by other threads when there is more to read.
        disk: The file system.

    Raises:
        LogError: It is in use, damaged, of other partitions, or its disk is full.
        SinkError: Its directory is not this user's.
    """

    def __init__(
        self,
        data: Path,
        partitions: int,
        reference_topics: Collection[str],
        options: LogOptions,
        clock: Clock,
        on_append: Callable[[], None] = lambda: None,
        disk: Disk | None = None,
    ) -> None:
        self.path = data / DIRECTORY
        self._reference_topics = frozenset(reference_topics)
        self._clock = clock
        make_private_dir(data)
        make_private_dir(self.path)
        self._lock_descriptor = _locked(self.path)
        logs: list[SegmentedLog] = []
        try:
            self.id = _identity(self.path, partitions).id
            for name, each in (
                (EVENTS, options),
                (REFERENCE, replace(options, retention_ms=None, retention_bytes=None)),
            ):
                make_private_dir(self.path / name)
                logs.append(SegmentedLog(self.path / name, each, clock.now_ms(), disk))
        except BaseException:
            for log in logs:
                log.close()
            os.close(self._lock_descriptor)
            raise
        self.events, self.reference = logs
        newest_ms = max(log.newest_ms for log in logs)
        self._append_clock = AppendClock(newest_ms, clock.now_ms(), clock.monotonic_ms())
        self._timing = Lock()
        self._commits = [GroupCommit(log, self.now_ms, on_append) for log in logs]

    def now_ms(self) -> int:
        """The append time of what is appended now."""
        with self._timing:
            return self._append_clock.now_ms(self._clock.now_ms(), self._clock.monotonic_ms())

    def append(self, batches: Batches) -> Sequence[Future[list[int]]]:
        """Append batches; each future holds base offsets or a LogError, once its batches are durable."""
        reference = [each for each in batches if each[0][0] in self._reference_topics]
        events = [each for each in batches if each[0][0] not in self._reference_topics]
        pairs = zip(self._commits, (events, reference), strict=True)
        return [commit.submit(part) for commit, part in pairs if part]

    def settled(self) -> Sequence[Future[list[int]]]:
        """What is done once everything with an append time of before now can be read."""
        return [future for commit in self._commits if (future := commit.settled()) is not None]

    def log_of(self, topic: str) -> SegmentedLog:
        """The log that holds a topic."""
        return self.reference if topic in self._reference_topics else self.events

    def drop(self, needed: Callable[[Place], float]) -> int:
        """Drop old segments of events; see `SegmentedLog.drop`."""
        return self.events.drop(self.now_ms(), needed)

    def close(self) -> None:
        """Append what waits and release the directory."""
        for commit in self._commits:
            commit.close()
        self.events.close()
        self.reference.close()
        os.close(self._lock_descriptor)


def _locked(path: Path) -> int:
    descriptor = open_private(path / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise LogInUseError(f"{path} is in use by another process; one at a time may write a log") from None
    return descriptor


def _identity(path: Path, partitions: int) -> _Identity:
    stored = read_private(path / _IDENTITY, _FILE_MAX_BYTES)
    if stored is None:
        identity = _Identity(secrets.token_hex(_ID_BYTES), partitions)
        write_private(path / _IDENTITY, msgspec.json.encode(identity))
        return identity
    try:
        identity = msgspec.json.decode(stored, type=_Identity)
    except msgspec.MsgspecError as fault:
        raise LogError(f"{path / _IDENTITY} cannot be read ({fault}); restore it from a backup") from None
    if identity.format != _FORMAT:
        raise LogError(f"{path} has format {identity.format}, this version knows {_FORMAT}")
    if identity.partitions != partitions:
        raise LogError(
            f"{path} has {identity.partitions} partitions, but {partitions} are set; the partition count of a log cannot change"
        )
    return identity
