"""Frames of a segment: a checksum, the topic and partition, and one record batch.

The frames of one group are written and synced together, and each holds the position of the group's first. A damaged
frame with a later group behind it was acknowledged; one without may be what a crash left of the last write.
Frames begin with a random mark of their segment, so that no client can send an event that looks like one.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

import google_crc32c

from streams.segmented_log.record_batch import HEADER_BYTES as BATCH_HEADER_BYTES
from streams.segmented_log.record_batch import header_of

Place = tuple[str, int]  # topic, partition

MARK_BYTES: Final = 4
# mark, checksum of all that follows it, bytes after this header, position of the group, partition, bytes of the topic
_HEADER: Final = struct.Struct(">4sIIQHB")
HEADER_BYTES: Final = _HEADER.size
_CHECKED_FROM: Final = 8
#: The topic of the frame at the beginning of each segment, which holds the offsets reached before it.
HEAD: Final = ""


class Frame(NamedTuple):
    """A frame of a segment; `at` and `size` are those of its content in the file."""

    place: Place
    group: int
    at: int
    size: int
    end: int  # of the frame in the file
    base_offset: int = 0
    next_offset: int = 0
    append_ms: int = 0


def packed(mark: bytes, place: Place, content: bytes, group: int) -> bytes:
    """The bytes of a frame."""
    topic = place[0].encode()
    rest = topic + content
    checked = _HEADER.pack(mark, 0, len(rest), group, place[1], len(topic))[_CHECKED_FROM:] + rest
    crc: int = google_crc32c.value(checked)
    return mark + crc.to_bytes(4, "big") + checked


def frames(data: bytes, mark: bytes, at: int) -> Iterator[Frame]:
    """Yield the frames from a position in a segment's bytes to the first that is damaged or cut off."""
    while (frame := frame_at(data, mark, at)) is not None:
        yield frame
        at = frame.end


def frame_at(data: bytes, mark: bytes, at: int) -> Frame | None:
    """The frame at a position; None: there is none, or it is damaged or cut off."""
    if len(data) - at < HEADER_BYTES or data[at : at + MARK_BYTES] != mark:
        return None
    _, crc, length, group, partition, topic_bytes = _HEADER.unpack_from(data, at)
    begin, end = at + HEADER_BYTES + topic_bytes, at + HEADER_BYTES + length
    if length < topic_bytes or end > len(data):
        return None
    if google_crc32c.value(data[at + _CHECKED_FROM : end]) != crc:
        return None
    topic = data[at + HEADER_BYTES : begin].decode()
    frame = Frame((topic, partition), group, begin, end - begin, end)
    if topic == HEAD:
        return frame
    found = header_of(data[begin : begin + BATCH_HEADER_BYTES])
    return frame._replace(
        base_offset=found.base_offset,
        next_offset=found.base_offset + found.records,
        append_ms=found.append_ms,
    )


def later_group(data: bytes, mark: bytes, at: int, position: int) -> int | None:
    """Where a whole frame of a group after `position` begins behind a damaged one at `at`; None: nowhere."""
    while (at := data.find(mark, at + 1)) >= 0:
        frame = frame_at(data, mark, at)
        if frame is not None and frame.group > position:
            return at
    return None
