"""Finds the records in a fetch response: walks Kafka's record batches (format 2) without an object per record.

It must not read outside the given bytes, whatever they contain, nor decompress or verify checksums: the caller does.
"""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import I32, I64, U8, Records

#: Bytes before a batch's length counts, before its checksum counts, and of its whole header.
BEFORE_LENGTH = 12
BEFORE_CHECKSUM = 21
HEADER_SIZE = 61
#: The shortest batch of any format, without the bytes before its length.
_SHORTEST = 14
_MAGIC_AT = 16
#: An empty record: its size, attributes, two deltas, key, value and number of headers.
RECORD_SIZE_MIN = 7
_FAR = 2**61

BATCH = np.dtype(
    [
        ("at", np.int64),  # offset of the batch in the fetched bytes
        ("end", np.int64),
        ("magic", np.int64),
        # All following fields are of format 2.
        ("base_offset", np.int64),
        ("checksum", np.int64),
        ("attributes", np.int64),
        ("last_delta", np.int64),
        ("first_ms", np.int64),
        ("max_ms", np.int64),
        ("producer_id", np.int64),
        ("count", np.int64),
        # Position of its records; the caller may move it to where they are after decompression.
        ("records_at", np.int64),
        ("records_end", np.int64),
        ("skipped", np.int64),  # 1: skip all its records
    ],
    align=True,
)
#: Bits of a batch's attributes.
CODEC = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20


@helper
def _big_endian(data: U8, at: int, size: int) -> int:
    """Read a signed integer of up to 8 bytes."""
    value = np.int64(data[at])
    if value > 127:
        value -= 256
    for k in range(1, size):
        value = value * 256 + np.int64(data[at + k])
    return int(value)


@helper
def _varint(data: U8, at: int, end: int) -> tuple[int, int]:
    """Read a zigzag number of at most 64 bits; return it and the next position, -1 if it does not end before `end`."""
    low = np.int64(0)
    for k in range(9):
        if at >= end:
            return 0, -1
        byte = np.int64(data[at])
        at += 1
        low |= (byte & 127) << (7 * k)
        if byte < 128:
            return int((low >> 1) ^ -(low & 1)), at
    if at >= end or data[at] > 127:
        return 0, -1
    high = np.int64(data[at]) & 1
    return int(((low >> 1) | (high << 62)) ^ -(low & 1)), at + 1


@kernel
def count_batches(data: U8) -> int:
    """Count the complete batches; a truncated last one does not count. -1: a length is invalid."""
    at = 0
    count = 0
    while at + BEFORE_LENGTH <= data.size:
        size = _big_endian(data, at + 8, 4)
        if size < _SHORTEST:
            return -1
        at += BEFORE_LENGTH + size
        if at > data.size:
            break
        count += 1
    return count


@kernel
def read_batches(data: U8, batches: Records) -> int:
    """Fill `batches` [n of count_batches] from their headers; return the first invalid one, or -1.

    For a batch of an older format only position and magic are set.
    """
    at = 0
    for b in range(batches.size):
        batch = batches[b]
        end = at + BEFORE_LENGTH + _big_endian(data, at + 8, 4)
        batch["at"] = at
        batch["end"] = end
        magic = np.int64(data[at + _MAGIC_AT])
        batch["magic"] = magic
        if magic >= 2:
            if end - at < HEADER_SIZE:
                return b
            batch["base_offset"] = _big_endian(data, at, 8)
            batch["checksum"] = _big_endian(data, at + 17, 4) & 0xFFFFFFFF
            batch["attributes"] = _big_endian(data, at + BEFORE_CHECKSUM, 2)
            batch["last_delta"] = _big_endian(data, at + 23, 4)
            batch["first_ms"] = _big_endian(data, at + 27, 8)
            batch["max_ms"] = _big_endian(data, at + 35, 8)
            batch["producer_id"] = _big_endian(data, at + 43, 8)
            batch["count"] = _big_endian(data, at + 57, 4)
            batch["records_at"] = at + HEADER_SIZE
            batch["records_end"] = end
            batch["skipped"] = 0
            if batch["base_offset"] < 0 or batch["base_offset"] > _FAR:
                return b
            if batch["last_delta"] < 0 or batch["count"] < 0:
                return b
        at = end
    return -1


@helper
def _skip_field(data: U8, at: int, end: int) -> tuple[int, int]:
    """The size of a bytes field (below 0: none) and the next position, -1: it does not fit."""
    size, at = _varint(data, at, end)
    if at < 0 or size > end - at:
        return 0, -1
    return size, at + max(size, 0)


@helper
def _headers_end(data: U8, at: int, end: int) -> int:
    """Where a record's headers end; -1: they do not fit."""
    count, at = _varint(data, at, end)
    if at < 0 or count < 0:
        return -1
    for _ in range(count):
        size, at = _skip_field(data, at, end)
        if at < 0 or size < 0:
            return -1
        _, at = _skip_field(data, at, end)
        if at < 0:
            return -1
    return at


@helper
def _record_fields(data: U8, at: int, end: int) -> tuple[int, int, int, int]:
    """A record's time and offset deltas, its value's size, and where its headers begin (-1: fields do not fit)."""
    _, at = _varint(data, at, end)  # attributes, which are unused
    if at < 0:
        return 0, 0, 0, -1
    delta_ms, at = _varint(data, at, end)
    if at < 0:
        return 0, 0, 0, -1
    delta, at = _varint(data, at, end)
    if at < 0:
        return 0, 0, 0, -1
    _, at = _skip_field(data, at, end)  # the key
    if at < 0:
        return 0, 0, 0, -1
    size, at = _skip_field(data, at, end)
    return delta_ms, delta, size, at


@kernel
def frame_records(
    data: U8,
    batches: Records,
    wanted: int,
    offsets: I64,
    log_ms: I64,
    value_at: I64,
    value_size: I32,
    headers_at: I64,
) -> tuple[int, int]:
    """Index the records at or after the offset `wanted`, ascending; return their number, and the first bad batch or -1.

    Batches ([n]) that are not skipped are walked from records_at to records_end in `data`, all of format 2. A record
    without a value has size -1, one without headers `headers_at` -1. The other arrays have room for all.
    """
    filled = 0
    for b in range(batches.size):
        batch = batches[b]
        if batch["skipped"] != 0:
            continue
        at = batch["records_at"]
        end = batch["records_end"]
        if at < 0 or end > data.size or batch["count"] * RECORD_SIZE_MIN > end - at:
            return filled, b
        base, last_delta = batch["base_offset"], batch["last_delta"]
        # No real clock is that far off; sums of two such values cannot overflow.
        first_ms = min(max(batch["first_ms"], -_FAR), _FAR)
        by_log = batch["attributes"] & LOG_APPEND_TIME != 0
        for _ in range(batch["count"]):
            size, at = _varint(data, at, end)
            if at < 0 or size < 0 or size > end - at:
                return filled, b
            record_end = at + size
            delta_ms, delta, size, at = _record_fields(data, at, record_end)
            if at < 0 or delta < 0 or delta > last_delta:
                return filled, b
            # Nearly every value is followed by one zero byte.
            plain = record_end - at == 1 and data[at] == 0
            if not plain and _headers_end(data, at, record_end) != record_end:
                return filled, b
            if base + delta >= wanted:
                wanted = base + delta + 1
                offsets[filled] = base + delta
                log_ms[filled] = batch["max_ms"] if by_log else first_ms + min(max(delta_ms, -_FAR), _FAR)
                value_at[filled] = at - max(size, 0)
                value_size[filled] = max(size, -1)
                headers_at[filled] = -1 if plain else at
                filled += 1
            at = record_end
        if at != end:
            return filled, b
        wanted = max(wanted, base + last_delta + 1)
    return filled, -1
