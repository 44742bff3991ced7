"""Opens the segments of a directory after an end of any kind, and cuts what a crash left of the last write.

Damage before a later group is an error that an operator decides about.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogCorruptError
from streams.segmented_log.frames import Place, frames, later_group
from streams.segmented_log.segment import (
    FILE_HEADER_BYTES,
    SegmentFile,
    SegmentIndex,
    base_of,
    damaged,
    opened,
    read_whole,
)

logger = logging.getLogger(__name__)


def recovered(disk: Disk, directory: Path) -> tuple[list[SegmentFile], dict[Place, int], int]:
    """The segments, oldest first, the next offset of each partition, and the newest append time (ms).

    Raises:
        LogCorruptError: A segment is missing or damaged.
        OSError: A file cannot be read or cut.
    """
    segments = _opened(disk, directory)
    if not segments:
        return [], {}, 0
    last = segments[-1]
    next_offsets = {
        (topic, partition): offset
        for topic, by_partition in last.head.next.items()
        for partition, offset in by_partition.items()
    }
    newest_ms = _scan(disk, last, next_offsets)
    return segments, next_offsets, newest_ms


def _opened(disk: Disk, directory: Path) -> list[SegmentFile]:
    named = sorted((base, path) for path in directory.iterdir() if (base := base_of(path)) is not None)
    segments: list[SegmentFile] = []
    for number, (base, path) in enumerate(named):
        if segments and segments[-1].end != base:
            raise LogCorruptError(
                f"{directory} lacks what is between {segments[-1].path.name} and {path.name}; restore the missing "
                "files from a backup, or see docs/backup.md#log-is-damaged"
            )
        segment = opened(disk, path, base)
        if segment is None:
            if number < len(named) - 1 or _holds_more(disk, path):
                raise damaged(path, 0)
            # A crash while it was begun: nothing is appended before its head is durable.
            disk.remove(path)
            disk.sync_directory(directory)
            continue
        segments.append(segment)
    return segments


def _holds_more(disk: Disk, path: Path) -> bool:
    """Whether a segment whose head is damaged holds later groups."""
    descriptor = disk.open(path)
    try:
        data = read_whole(descriptor, os.fstat(descriptor).st_size)
    finally:
        os.close(descriptor)
    mark = data[FILE_HEADER_BYTES - 4 : FILE_HEADER_BYTES]
    base = base_of(path) or 0
    return len(mark) == 4 and later_group(data, mark, FILE_HEADER_BYTES, base) is not None


def _scan(disk: Disk, last: SegmentFile, next_offsets: dict[Place, int]) -> int:
    """Index the last segment, cut its torn tail, and bring the offsets up to date; return the newest append time."""
    descriptor = last.descriptor = disk.open(last.path)
    data = read_whole(descriptor, last.size)
    index, end, newest_ms = SegmentIndex(), FILE_HEADER_BYTES, last.head.begun_ms
    for frame in frames(data, last.mark, FILE_HEADER_BYTES):
        index.add(frame)
        end = frame.end
        if frame.next_offset:
            next_offsets[frame.place] = frame.next_offset
            newest_ms = max(newest_ms, frame.append_ms)
    if end < len(data):
        if later_group(data, last.mark, end, last.base + end) is not None:
            raise damaged(last.path, end)
        logger.warning(
            "end of the log was not written completely and is cut off",
            extra={
                "path": str(last.path),
                "at": end,
                "bytes": len(data) - end,
                "runbook": "docs/backup.md#log-end-was-cut",
            },
        )
        disk.truncate(descriptor, end)
        disk.sync(descriptor)
    last.size, last.index = end, index
    return newest_ms
