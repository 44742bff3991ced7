"""Record batches of format 2 as a broker would keep them, written by aiokafka's own builder."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from aiokafka.record.control_record import ABORT_MARKER
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.util import calc_crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
ATTRIBUTES_AT = 21
CONTROL, TRANSACTIONAL, LOG_APPEND_TIME = 0x20, 0x10, 0x08


@dataclass(frozen=True)
class Written:
    """One record; `delta` is its offset above that of the batch."""

    delta: int
    timestamp: int
    value: bytes | None
    key: bytes | None = b"k"
    headers: Sequence[tuple[str, bytes | None]] = ()


def batch(
    base_offset: int,
    records: Sequence[Written],
    *,
    codec: str = "none",
    producer: int = -1,
    attributes: int = 0,
    last_delta: int | None = None,
    appended_ms: int | None = None,
) -> bytearray:
    """One batch; `last_delta`: when compaction has taken its last records, `appended_ms`: the log's own time."""
    builder = DefaultRecordBatchBuilder(2, CODECS[codec], 0, producer, 0, 0, 2**31 - 1)
    for record in records:
        builder.append(record.delta, record.timestamp, record.key, record.value, list(record.headers))
    built = bytearray(builder.build())
    struct.pack_into(">q", built, 0, base_offset)
    if last_delta is not None:
        struct.pack_into(">i", built, 23, last_delta)
    if appended_ms is not None:
        attributes |= LOG_APPEND_TIME
        struct.pack_into(">q", built, 35, appended_ms)
    built[ATTRIBUTES_AT + 1] |= attributes
    return checked(built)


def checked(built: bytearray) -> bytearray:
    """The batch with the checksum of what it holds now."""
    struct.pack_into(">I", built, 17, calc_crc32c(bytes(built[ATTRIBUTES_AT:])))
    return built


def marker(offset: int, producer: int, *, abort: bool) -> bytearray:
    """What ends a transaction."""
    key = struct.pack(">HH", 0, ABORT_MARKER.type_ if abort else 1)
    record = Written(0, 1, b"\x00" * 6, key)
    return batch(offset, [record], producer=producer, attributes=CONTROL | TRANSACTIONAL)
