"""Batches for a log on disk, and what a log holds of them."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from aiokafka.record.default_records import DefaultRecordBatch

from streams.segmented_log.disk import Disk
from streams.segmented_log.frames import Place
from streams.segmented_log.log import LogOptions, SegmentedLog
from tests.transport.batches import Written, batch

JOBS: Place = ("jobs", 0)
GPU: Place = ("gpu", 1)
PLACES = (JOBS, GPU, ("jobs", 1))
AT_MS = 1_780_000_000_000


def batch_of(*values: bytes) -> bytes:
    """A batch as a client makes it."""
    return bytes(batch(0, [Written(number, 1, value) for number, value in enumerate(values)]))


@contextmanager
def opened(path: Path, options: LogOptions | None = None, disk: Disk | None = None) -> Iterator[SegmentedLog]:
    """A log that is closed at the end."""
    log = SegmentedLog(path, options or LogOptions(), AT_MS, disk)
    try:
        yield log
    finally:
        log.close()


def held(log: SegmentedLog, place: Place) -> list[tuple[int, bytes | None]]:
    """Offset and value of each record of a partition, read in small pieces."""
    found: list[tuple[int, bytes | None]] = []
    offset = log.start(place)
    while offset < log.end(place):
        for data in log.read(place, offset, 100):
            found += [(each.offset, each.value) for each in _records(data) if each.offset >= offset]
        offset = found[-1][0] + 1
    return found


def all_held(
    log: SegmentedLog, places: Sequence[Place] = PLACES
) -> dict[Place, list[tuple[int, bytes | None]]]:
    """What a log holds of each partition."""
    return {place: held(log, place) for place in places if log.end(place)}


def _records(data: bytes) -> DefaultRecordBatch:
    found = DefaultRecordBatch(data)
    assert found.validate_crc()
    return found


class Unsynced(Disk):
    """Waits for no platter: what these tests cut and change are files."""

    def sync(self, descriptor: int) -> None:
        pass

    def sync_directory(self, path: Path) -> None:
        pass


class FullDisk(Unsynced):
    """Has room for so many bytes more; None: for any."""

    def __init__(self, room: int | None = None) -> None:
        self.room = room

    def write(self, descriptor: int, data: bytes, at: int) -> None:
        fits = len(data) if self.room is None else min(self.room, len(data))
        super().write(descriptor, data[:fits], at)
        if self.room is not None:
            self.room -= fits
        if fits < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
