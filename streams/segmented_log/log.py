"""A log of many topics and partitions in one sequence of segments: one write and one sync for all that waits."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Final

from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogError, LogFullError, OffsetOutOfRangeError
from streams.segmented_log.frames import Frame, Place, packed
from streams.segmented_log.record_batch import checked, stamped
from streams.segmented_log.recovery import recovered
from streams.segmented_log.segment import SegmentFile, SegmentIndex, begin

logger = logging.getLogger(__name__)

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
#: Segments besides the last that are open, with an index, at a time.
_LOADED_AT_MOST: Final = 4


@dataclass(frozen=True)
class LogOptions:
    """How segments are cut, and how long they are kept; None: forever."""

    segment_bytes: int = 64 * 2**20
    segment_ms: int = 86_400_000
    retention_ms: int | None = None
    retention_bytes: int | None = None


class SegmentedLog:
    """The log in one directory; the caller holds its lock. Any thread may call it, one at a time `append`.

    Raises:
        LogCorruptError: A segment is missing or damaged.
        LogFullError: There is no room for the first segment.
        LogError: The directory cannot be used.
    """

    def __init__(self, directory: Path, options: LogOptions, now_ms: int, disk: Disk | None = None) -> None:
        self._directory = directory
        self._options = options
        self._disk = Disk() if disk is None else disk
        self._lock = Lock()  # of everything below, but for the time of a write
        self._broken: str | None = None
        self._is_closed = False
        self._recent: list[SegmentFile] = []  # loaded segments besides the last, the newest used at the end
        try:
            self._segments, self._next, self.newest_ms = recovered(self._disk, directory)
            if not self._segments:
                self._segments = [begin(self._disk, directory, 0, now_ms, {})]
        except OSError as fault:
            raise self._explained(fault) from fault

    def append(self, batches: Sequence[tuple[Place, bytes]], append_ms: int) -> list[int]:
        """Write record batches as one group; return their base offsets once all are durable.

        Args:
            batches: Each with its partition, as a client made it (`record_batch.checked`).
            append_ms: Their append time, ms since 1970; no earlier than `newest_ms`.

        Raises:
            BadBatchError: One is no batch; none is written.
            LogFullError: There is no room; none is in the log.
            LogError: The disk failed; some may be in the log after a restart. Later calls fail, too.
        """
        if self._broken is not None:
            raise LogError(self._broken)
        if not batches:
            return []
        counts = [checked(batch) for _, batch in batches]
        try:
            segment = self._with_room(sum(len(batch) for _, batch in batches), append_ms)
        except OSError as fault:
            raise self._explained(fault) from fault
        data, found, next_offsets = bytearray(), list[Frame](), dict(self._next)
        group = segment.end
        for (place, batch), count in zip(batches, counts, strict=True):
            offset = next_offsets.get(place, 0)
            next_offsets[place] = offset + count
            content = stamped(batch, offset, append_ms)
            data += packed(segment.mark, place, content, group)
            end, size = segment.size + len(data), len(content)
            found.append(Frame(place, group, end - size, size, end, offset, offset + count, append_ms))
        self._write(segment, bytes(data))
        with self._lock:
            for frame in found:
                segment.load(self._disk).add(frame)
            segment.size += len(data)
            self._next, self.newest_ms = next_offsets, append_ms
        return [frame.base_offset for frame in found]

    def read(self, place: Place, offset: int, max_bytes: int) -> list[bytes]:
        """Batches of a partition, the first with `offset`; at least one, of more at most `max_bytes`.

        Raises:
            OffsetOutOfRangeError: The log does not hold the offset.
            LogCorruptError: A segment is damaged.
            LogError: It cannot be read.
        """
        found: list[bytes] = []
        left_bytes = max_bytes
        with self._lock:
            if self._is_closed:
                raise LogError("the log is closed")
            if not self._start(place) <= offset <= self._next.get(place, 0):
                raise OffsetOutOfRangeError(f"{place[0]}/{place[1]} does not hold offset {offset}")
            if offset == self._next.get(place, 0):
                return found
            try:
                for number in range(self._segment_of(place, offset), len(self._segments)):
                    segment = self._segments[number]
                    if segment.head.next_offset(place) == self._end_of(number, place):
                        continue
                    for at, size in self._loaded(segment).batches(place, offset):
                        if found and size > left_bytes:
                            return found
                        found.append(os.pread(segment.descriptor or 0, size, at))
                        left_bytes -= size
            except OSError as fault:
                raise self._explained(fault) from fault
        return found

    def start(self, place: Place) -> int:
        """The first offset that the log holds of a partition."""
        with self._lock:
            return self._start(place)

    def end(self, place: Place) -> int:
        """The offset of the next record of a partition."""
        with self._lock:
            return self._next.get(place, 0)

    def drop(self, now_ms: int, needed: Callable[[Place], float]) -> int:
        """Drop the oldest segments that are too old or too many; return how many.

        Args:
            now_ms: Of the append times' clock.
            needed: The first offset of a partition that must stay.

        Raises:
            LogError: A file cannot be removed.
        """
        dropped = 0
        while True:
            with self._lock:
                if not self._is_over(now_ms) or any(
                    needed(place) < end for place, end in _ends(self._segments[1].head.next)
                ):
                    return dropped
                segment = self._segments.pop(0)
                if segment in self._recent:
                    self._recent.remove(segment)
                segment.unload()
            try:
                self._disk.remove(segment.path)
                self._disk.sync_directory(self._directory)
            except OSError as fault:
                raise self._explained(fault) from fault
            logger.info("segment dropped", extra={"path": str(segment.path)})
            dropped += 1

    def close(self) -> None:
        """Close all files."""
        with self._lock:
            self._broken, self._is_closed = "the log is closed", True
            for segment in self._segments:
                segment.unload()

    # -- with the lock held --------------------------------------------------------------------------------

    def _start(self, place: Place) -> int:
        return self._segments[0].head.next_offset(place)

    def _end_of(self, number: int, place: Place) -> int:
        """The offset that follows what a segment holds of a partition."""
        if number + 1 < len(self._segments):
            return self._segments[number + 1].head.next_offset(place)
        return self._next.get(place, 0)

    def _segment_of(self, place: Place, offset: int) -> int:
        """The number of the segment that holds an offset, or will hold it."""
        for number in range(len(self._segments) - 1, 0, -1):
            if self._segments[number].head.next_offset(place) <= offset:
                return number
        return 0

    def _loaded(self, segment: SegmentFile) -> SegmentIndex:
        if segment is not self._segments[-1]:
            if segment in self._recent:
                self._recent.remove(segment)
            self._recent.append(segment)
            if len(self._recent) > _LOADED_AT_MOST:
                self._recent.pop(0).unload()
        return segment.load(self._disk)

    def _is_over(self, now_ms: int) -> bool:
        """Whether the oldest segment may be dropped by its age or the size of all."""
        if len(self._segments) == 1:
            return False
        options, following = self._options, self._segments[1]
        total = self._segments[-1].end - self._segments[0].base
        return (options.retention_bytes is not None and total > options.retention_bytes) or (
            options.retention_ms is not None and following.head.begun_ms < now_ms - options.retention_ms
        )

    # -- of the thread that appends ------------------------------------------------------------------------

    def _with_room(self, size: int, now_ms: int) -> SegmentFile:
        """The last segment, or a new one if it is full or old."""
        last = self._segments[-1]
        if (
            last.index is not None
            and not last.index.is_empty
            and (
                last.size + size > self._options.segment_bytes
                or now_ms - last.head.begun_ms >= self._options.segment_ms
            )
        ):
            begun = begin(self._disk, self._directory, last.end, now_ms, self._next)
            with self._lock:
                self._segments.append(begun)
                self._recent.append(last)
            return begun
        return last

    def _write(self, segment: SegmentFile, data: bytes) -> None:
        descriptor = segment.descriptor
        assert descriptor is not None  # the last segment is always open
        try:
            self._disk.write(descriptor, data, segment.size)
            self._disk.sync(descriptor)
        except OSError as fault:
            self._take_back(segment, descriptor, fault)
            raise self._explained(fault) from fault

    def _take_back(self, segment: SegmentFile, descriptor: int, fault: OSError) -> None:
        """Cut off what was written of a group; if that is not certain, append nothing any more."""
        try:
            self._disk.truncate(descriptor, segment.size)
            self._disk.sync(descriptor)
        except OSError as second:
            fault = second
        else:
            if fault.errno in _FULL:
                return
        # After a failed sync nobody knows which pages are on the disk: a start reads what is there.
        self._broken = (
            f"the disk of {self._directory} failed ({fault.strerror}); events are refused until a restart: "
            "see to the disk first"
        )

    def _explained(self, fault: OSError) -> LogError:
        if fault.errno in _FULL:
            return LogFullError(
                f"no room for events in {self._directory} ({fault.strerror}); make room on its disk"
            )
        return LogError(
            f"{fault.filename or self._directory}: {fault.strerror}; see to the disk and who owns the directory"
        )


def _ends(by_topic: Mapping[str, Mapping[int, int]]) -> list[tuple[Place, int]]:
    return [((topic, number), end) for topic, ends in by_topic.items() for number, end in ends.items()]
