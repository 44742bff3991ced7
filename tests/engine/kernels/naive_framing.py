"""The slow, obvious twin of the framing kernels: record batches of Kafka's format 2, in Python integers."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEADER = struct.Struct(">qiibIhiqqqhii")
FAR = 2**61


class Framed(NamedTuple):
    """offset, log ms, where its value stands, its size or -1, where its headers begin or -1."""

    offset: int
    log_ms: int
    value_at: int
    value_size: int
    headers_at: int


class BadError(ValueError):
    """The bytes are no such batches."""


def varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = 0
    for k in range(10):
        if at >= end:
            raise BadError("a number does not end")
        byte = data[at]
        at += 1
        value |= (byte & 127) << (7 * k)
        if byte < 128:
            value &= 2**64 - 1
            return (value >> 1) ^ -(value & 1), at
    raise BadError("a number of more than 64 bits")


def field(data: bytes, at: int, end: int) -> tuple[int, int, int]:
    """Size (-1: none), first byte, the byte behind."""
    size, at = varint(data, at, end)
    if size > end - at:
        raise BadError("a field does not fit")
    return max(size, -1), at, at + max(size, 0)


def frame(data: bytes, wanted: int) -> list[Framed]:
    """All records at or after `wanted` of uncompressed batches."""
    found = []
    at = 0
    while at + 12 <= len(data):
        (size,) = struct.unpack_from(">i", data, at + 8)
        if size < 14:
            raise BadError("a batch of an impossible length")
        if at + 12 + size > len(data):
            break
        rows, wanted = frame_batch(data, at, at + 12 + size, wanted)
        found += rows
        at += 12 + size
    return found


def frame_batch(data: bytes, at: int, end: int, wanted: int) -> tuple[list[Framed], int]:
    if end - at < HEADER.size:
        raise BadError("a batch without a whole header")
    base, _, _, _, _, attributes, last, first_ms, max_ms, _, _, _, count = HEADER.unpack_from(data, at)
    if data[at + 16] < 2 or not 0 <= base <= FAR or last < 0 or count < 0:
        raise BadError("a header that cannot be")
    found = []
    at += HEADER.size
    if count * 7 > end - at:
        raise BadError("no room for so many")
    for _ in range(count):
        size, at = varint(data, at, end)
        if not 0 <= size <= end - at:
            raise BadError("a record does not fit")
        delta_ms, delta, (value_size, value_at, headers_at) = record(data, at, at + size)
        at += size
        if not 0 <= delta <= last:
            raise BadError("an offset outside of the batch")
        clipped_ms = [min(max(ms, -FAR), FAR) for ms in (first_ms, delta_ms)]
        log_ms = max_ms if attributes & 8 else sum(clipped_ms)
        if base + delta >= wanted:
            wanted = base + delta + 1
            plain = at - headers_at == 1
            found.append(Framed(base + delta, log_ms, value_at, value_size, -1 if plain else headers_at))
    if at != end:
        raise BadError("bytes behind the last record")
    return found, max(wanted, base + last + 1)


def record(data: bytes, at: int, end: int) -> tuple[int, int, tuple[int, int, int]]:
    """What its time and offset add to those of the batch, and its value as a field."""
    _, at = varint(data, at, end)
    delta_ms, at = varint(data, at, end)
    delta, at = varint(data, at, end)
    _, _, at = field(data, at, end)
    value = field(data, at, end)
    headers, at = varint(data, value[2], end)
    if headers < 0:
        raise BadError("a negative number of headers")
    for _ in range(headers):
        size, _, at = field(data, at, end)
        if size < 0:
            raise BadError("a header without a name")
        _, _, at = field(data, at, end)
    if at != end:
        raise BadError("a record of another size")
    return delta_ms, delta, value
