"""One file of the log: its header, the offsets reached before it, and where its batches are.

Named by the log position of its first byte.
"""

from __future__ import annotations

import os
import secrets
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec

from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogCorruptError
from streams.segmented_log.frames import HEAD, MARK_BYTES, Frame, Place, frame_at, frames, packed

SUFFIX: Final = ".log"
_DIGITS: Final = 20
_FORMAT: Final = b"trainfare1\n\x00"
FILE_HEADER_BYTES: Final = len(_FORMAT) + MARK_BYTES
#: Enough for the first frame of a log of 4,096 partitions; a longer one is read whole.
_HEAD_BYTES: Final = 512 * 1024


class Head(msgspec.Struct, frozen=True):
    """The first frame: when the segment was begun, and the next offset of each partition by topic then."""

    begun_ms: int
    next: dict[str, dict[int, int]]

    def next_offset(self, place: Place) -> int:
        """The offset that the first record of a partition in this segment has."""
        return self.next.get(place[0], {}).get(place[1], 0)


@dataclass
class _Batches:
    """The batches of one partition: parallel columns in the order of offsets."""

    base_offsets: array[int] = field(default_factory=lambda: array("q"))
    at: array[int] = field(default_factory=lambda: array("q"))
    sizes: array[int] = field(default_factory=lambda: array("q"))


class SegmentIndex:
    """Where each batch of a segment is."""

    def __init__(self, found: Iterable[Frame] = ()) -> None:
        self._places: dict[Place, _Batches] = {}
        for frame in found:
            self.add(frame)

    def add(self, frame: Frame) -> None:
        """Add the next frame."""
        if frame.place[0] == HEAD:
            return
        batches = self._places.setdefault(frame.place, _Batches())
        batches.base_offsets.append(frame.base_offset)
        batches.at.append(frame.at)
        batches.sizes.append(frame.size)

    @property
    def is_empty(self) -> bool:
        """Whether the segment holds no batch."""
        return not self._places

    def batches(self, place: Place, offset: int) -> Iterator[tuple[int, int]]:
        """Yield position and size of the batch with an offset, and of those after it."""
        batches = self._places.get(place)
        if batches is None:
            return
        first = max(bisect_right(batches.base_offsets, offset) - 1, 0)
        yield from zip(batches.at[first:], batches.sizes[first:], strict=True)


@dataclass
class SegmentFile:
    """A file; `size` is the end of what is durable."""

    path: Path
    base: int
    mark: bytes
    head: Head
    size: int
    descriptor: int | None = None
    index: SegmentIndex | None = None

    @property
    def end(self) -> int:
        """The log position after the last byte."""
        return self.base + self.size

    def load(self, disk: Disk) -> SegmentIndex:
        """Open the file and read where its batches are.

        Raises:
            LogCorruptError: A frame is damaged.
            OSError: The file cannot be read.
        """
        if self.descriptor is None:
            self.descriptor = disk.open(self.path)
        if self.index is None:
            data = read_whole(self.descriptor, self.size)
            found = list(frames(data, self.mark, FILE_HEADER_BYTES))
            end = found[-1].end if found else 0
            if end != self.size:
                raise damaged(self.path, end)
            self.index = SegmentIndex(found)
        return self.index

    def unload(self) -> None:
        """Close the file and forget where its batches are."""
        if self.descriptor is not None:
            os.close(self.descriptor)
        self.descriptor = self.index = None


def damaged(path: Path, at: int) -> LogCorruptError:
    """The error for bytes that were acknowledged and have changed."""
    return LogCorruptError(
        f"{path} is damaged at byte {at}: what follows was acknowledged and cannot be read; restore the file from a "
        "backup, or see docs/backup.md#log-is-damaged"
    )


def name_of(base: int) -> str:
    """The file name of a segment."""
    return f"{base:0{_DIGITS}d}{SUFFIX}"


def base_of(path: Path) -> int | None:
    """The log position in a segment's name; None: the file is no segment."""
    stem = path.name.removesuffix(SUFFIX)
    return int(stem) if path.name.endswith(SUFFIX) and len(stem) == _DIGITS and stem.isdigit() else None


def begin(
    disk: Disk, directory: Path, base: int, begun_ms: int, next_offsets: Mapping[Place, int]
) -> SegmentFile:
    """Create a segment with its head, durably.

    Raises:
        OSError: There is no room; no file is left.
    """
    by_topic: dict[str, dict[int, int]] = {}
    for (topic, partition), offset in next_offsets.items():
        by_topic.setdefault(topic, {})[partition] = offset
    head, mark, path = Head(begun_ms, by_topic), secrets.token_bytes(MARK_BYTES), directory / name_of(base)
    data = _FORMAT + mark + packed(mark, (HEAD, 0), msgspec.json.encode(head), base)
    descriptor = disk.create(path)
    try:
        disk.write(descriptor, data, 0)
        disk.sync(descriptor)
        disk.sync_directory(directory)
    except BaseException:
        os.close(descriptor)
        disk.remove(path)
        raise
    return SegmentFile(path, base, mark, head, len(data), descriptor, SegmentIndex())


def opened(disk: Disk, path: Path, base: int) -> SegmentFile | None:
    """A segment that exists, without its index; None: its head was never written completely.

    Raises:
        OSError: The file cannot be read.
    """
    descriptor = disk.open(path)
    try:
        size = os.fstat(descriptor).st_size
        data = os.pread(descriptor, _HEAD_BYTES, 0)
        mark, frame = data[len(_FORMAT) : FILE_HEADER_BYTES], None
        if data.startswith(_FORMAT):
            frame = frame_at(data, mark, FILE_HEADER_BYTES)
            if frame is None and size > len(data):
                data = read_whole(descriptor, size)
                frame = frame_at(data, mark, FILE_HEADER_BYTES)
    finally:
        os.close(descriptor)
    if frame is None or frame.place[0] != HEAD:
        return None
    head = msgspec.json.decode(data[frame.at : frame.at + frame.size], type=Head)
    return SegmentFile(path, base, mark, head, size)


def read_whole(descriptor: int, size: int) -> bytes:
    """The first `size` bytes of a file, or all that it has."""
    pieces, at = [], 0
    while at < size and (piece := os.pread(descriptor, size - at, at)):
        pieces.append(piece)
        at += len(piece)
    return b"".join(pieces)
