"""Kafka's record batches, version 2: their header, and the offset and append time that the log gives them."""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

import google_crc32c

from streams.segmented_log.errors import BadBatchError

# base offset, length, leader epoch, magic, checksum, attributes, last offset delta, first and newest time (ms),
# producer id, producer epoch, base sequence, number of records
_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
HEADER_BYTES: Final = _HEADER.size
_BEFORE_LENGTH_BYTES: Final = 12  # base offset and length: the length counts what follows
_CHECKED_FROM: Final = 21
_MAGIC: Final = 2
_LOG_APPEND_TIME: Final = 0x08
_TRANSACTIONAL: Final = 0x10
_CONTROL: Final = 0x20


class BatchHeader(NamedTuple):
    """What the log needs of a batch."""

    base_offset: int
    records: int
    append_ms: int


def header_of(batch: bytes) -> BatchHeader:
    """The header of a batch that the log wrote."""
    base_offset, _, _, _, _, _, _, _, newest_ms, _, _, _, count = _HEADER.unpack_from(batch)
    return BatchHeader(base_offset, count, newest_ms)


def checked(batch: bytes) -> int:
    """The number of records of a client's batch.

    Raises:
        BadBatchError: It is damaged, of an old format, or part of a transaction.
    """
    if len(batch) < HEADER_BYTES:
        raise BadBatchError("a record batch is cut off")
    _, length, _, magic, crc, attributes, last_delta, _, _, _, _, _, count = _HEADER.unpack_from(batch)
    if magic != _MAGIC:
        raise BadBatchError(f"a record batch has version {magic}, expected {_MAGIC}")
    if length != len(batch) - _BEFORE_LENGTH_BYTES:
        raise BadBatchError("a record batch has a wrong length")
    if crc != google_crc32c.value(batch[_CHECKED_FROM:]):
        raise BadBatchError("a record batch has a wrong checksum")
    if count < 1 or last_delta != count - 1:
        raise BadBatchError("a record batch has a wrong number of records")
    if attributes & (_TRANSACTIONAL | _CONTROL):
        raise BadBatchError("transactions are not supported")
    return int(count)


def stamped(batch: bytes, base_offset: int, append_ms: int) -> bytes:
    """The batch at its place in the log: `append_ms` (ms since 1970) becomes the time of all its records."""
    _, length, _, magic, _, attributes, *rest = _HEADER.unpack_from(batch)
    last_delta, first_ms, _, *producer = rest
    fields = (last_delta, first_ms, append_ms, *producer)
    attributes |= _LOG_APPEND_TIME
    blank = _HEADER.pack(base_offset, length, 0, magic, 0, attributes, *fields)
    crc = google_crc32c.extend(google_crc32c.value(blank[_CHECKED_FROM:]), batch[HEADER_BYTES:])
    return _HEADER.pack(base_offset, length, 0, magic, crc, attributes, *fields) + batch[HEADER_BYTES:]
