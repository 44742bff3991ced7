"""Reads a log on disk from a position to its end, beside its writer or without one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from streams.segmented_log.disk import Disk
from streams.segmented_log.errors import LogError
from streams.segmented_log.frames import HEAD, Place, frames
from streams.segmented_log.segment import FILE_HEADER_BYTES, base_of, damaged, opened


class LoggedBatch(NamedTuple):
    """A batch as it was appended; reading goes on at `position`."""

    place: Place
    data: bytes
    position: int


def size_from(directory: Path, position: int = 0) -> int:
    """The bytes that the log holds from a position on."""
    return sum(
        max(base + path.stat().st_size - max(base, position), 0) for base, path in _segments(directory)
    )


def read_log(directory: Path, position: int = 0) -> Iterator[LoggedBatch]:
    """Yield the batches from a position on; 0: from the first that is there.

    Raises:
        LogCorruptError: A segment is damaged.
        LogError: What follows the position was dropped, or a file cannot be read.
    """
    segments = _segments(directory)
    if position and segments and position < segments[0][0]:
        raise LogError(
            f"{directory} begins at {segments[0][0]}: what follows {position} was dropped by the retention"
        )
    for base, path in segments:
        is_last = path == segments[-1][1]
        try:
            segment, data = opened(Disk(), path, base), path.read_bytes()
        except OSError as fault:
            raise LogError(f"{path}: {fault.strerror}") from fault
        if segment is None and not is_last:
            raise damaged(path, 0)
        if segment is None or base + len(data) <= position:
            continue
        end = FILE_HEADER_BYTES
        for frame in frames(data, segment.mark, FILE_HEADER_BYTES):
            end = frame.end
            if frame.place[0] != HEAD and base + end > position:
                yield LoggedBatch(frame.place, data[frame.at : end], base + end)
        if end < len(data) and not is_last:
            raise damaged(path, end)


def _segments(directory: Path) -> list[tuple[int, Path]]:
    return sorted((base, path) for path in directory.iterdir() if (base := base_of(path)) is not None)
