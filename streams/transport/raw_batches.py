"""Converts the bytes of a fetched partition to `RawRecords`: checksums, aborted transactions, decompression, framing.

The checksum is google-crc32c's (Apache-2.0, wheels that use the processor's instruction): aiokafka's compiled
one takes ten times as long, as long as everything else here. Unreadable data raise CorruptRecordException, as
in aiokafka, and are fetched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
from aiokafka.errors import CorruptRecordException
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import calc_crc32c

from streams import fallbacks
from streams.engine.batch import Headers
from streams.engine.kernels.arrays import U8, Records
from streams.engine.kernels.framing import (
    BATCH,
    BEFORE_CHECKSUM,
    CODEC,
    CONTROL,
    RECORD_SIZE_MIN,
    TRANSACTIONAL,
    count_batches,
    frame_records,
    read_batches,
)
from streams.engine.raw_records import UNREAD, RawRecords
from streams.fallbacks import CHECKSUM
from streams.gzip_members import TooLargeError
from streams.transport import codecs
from streams.transport.decompressed import DecompressedBytes

#: No producer makes a compressed batch of more records, whose cost its size would not show.
MOST_RECORDS: Final = 1_000_000
#: Limit of what is decompressed of one fetch in one go; the rest is fetched again.
_SLICE_BYTES: Final = 16 * 2**20
_SLICE_RECORDS: Final = 100_000
_MARKER_SIZE: Final = 4  # a version and a type
#: An aborted transaction: the producer id, and the first offset in this partition.
Aborted = tuple[int, int]
# Without its compiled part google-crc32c is slower than aiokafka.
_IS_FAST: Final = google_crc32c.implementation == "c"
_checksum: Callable[[Any], int] = google_crc32c.value if _IS_FAST else calc_crc32c


@dataclass(frozen=True, slots=True)
class FetchedPartition:
    """Records at or after the requested offset, and the offset to request next."""

    records: RawRecords
    next_offset: int


def read_fetch(
    fetched: bytes | memoryview,
    wanted: int,
    aborted: Iterable[Aborted] | None,
    *,
    check_crcs: bool,
    read_committed: bool,
    decoded: DecompressedBytes | None = None,
) -> FetchedPartition | None:
    """Index a broker's response for one partition, requested from offset `wanted` on; return None for an older format.

    Of compressed batches perhaps not all: `next_offset` follows those that are included. A batch that is too large to
    be read is represented by one UNREAD record at its first offset.

    Raises:
        CorruptRecordException: The data are invalid.
        UnsupportedCodecError: A codec is unknown.
    """
    data = np.frombuffer(fetched, np.uint8)
    count = count_batches(data)
    if count < 0:
        raise CorruptRecordException("a batch of an impossible length")
    batches = np.zeros(count, BATCH)
    bad = read_batches(data, batches)
    if (batches["magic"][: bad if bad >= 0 else count] < 2).any():
        return None
    if bad >= 0:
        raise CorruptRecordException(f"the header of batch {bad} of {count} cannot be")
    if check_crcs:
        _check(data, batches)
    batches["skipped"] = batches["attributes"] & CONTROL != 0
    if read_committed and aborted:
        _skip_aborted(fetched, batches, aborted)
    batches["skipped"] |= batches["base_offset"] + batches["last_delta"] < wanted
    unread = np.zeros(0, BATCH)
    if (batches["attributes"] & CODEC).any():
        data, batches, unread = _decompressed(data, batches, decoded)
    records = _framed(data, batches, wanted)
    return FetchedPartition(_with_unread(records, unread, wanted), _next_offset(batches, wanted))


def _check(data: U8, batches: Records) -> None:
    if not _IS_FAST:
        fallbacks.counts[CHECKSUM] += 1
    places = zip(batches["at"].tolist(), batches["end"].tolist(), batches["checksum"].tolist(), strict=True)
    for at, end, checksum in places:
        if _checksum(data[at + BEFORE_CHECKSUM : end]) != checksum:
            raise CorruptRecordException(f"Invalid CRC of the batch at byte {at}")


def _skip_aborted(fetched: bytes | memoryview, batches: Records, aborted: Iterable[Aborted]) -> None:
    """Mark batches of aborted transactions; a marker among the batches ends each."""
    begun = sorted(aborted, key=lambda each: each[1], reverse=True)
    producers: set[int] = set()
    for batch in batches:
        while begun and begun[-1][1] <= batch["base_offset"]:
            producers.add(begun.pop()[0])
        producer = int(batch["producer_id"])
        if batch["attributes"] & CONTROL:
            if producer in producers and _is_abort(bytes(fetched[batch["at"] : batch["end"]])):
                producers.discard(producer)
        elif batch["attributes"] & TRANSACTIONAL and producer in producers:
            batch["skipped"] = 1


def _is_abort(control: bytes) -> bool:
    record = next(iter(DefaultRecordBatch(control)), None)
    if record is None or record.key is None or len(record.key) < _MARKER_SIZE:
        raise CorruptRecordException("a control batch without a marker")
    return bool(ControlRecord.parse(record.key) == ABORT_MARKER)


def _decompressed(
    data: U8, batches: Records, decoded: DecompressedBytes | None
) -> tuple[U8, Records, Records]:
    """The concatenated records, the batches with the positions of their records, and the batches that are too large.

    It includes as many batches as a slice holds, at least one.
    """
    most_bytes, most_records = _SLICE_BYTES, _SLICE_RECORDS
    if decoded is not None and decoded.is_full:
        most_bytes = most_records = 1
    pieces: list[bytes] = []
    unread: list[int] = []
    read = end = records = 0
    for read, batch in enumerate(batches, 1):
        if batch["skipped"]:
            continue
        piece = _piece(data, batch)
        if piece is None:
            unread.append(read - 1)
            batch["skipped"] = 1
            continue
        pieces.append(piece)
        batch["records_at"], end = end, end + len(piece)
        batch["records_end"] = end
        records += int(batch["count"])
        if end >= most_bytes or records >= most_records:
            break
    found = np.frombuffer(b"".join(pieces), np.uint8)
    if decoded is not None:
        decoded.add(found)
    return found, batches[:read], batches[unread]


def _piece(data: U8, batch: Any) -> bytes | None:
    """The batch's records; None if they exceed a limit."""
    codec = int(batch["attributes"] & CODEC)
    if codec and batch["count"] > MOST_RECORDS:
        return None
    piece = data[batch["records_at"] : batch["records_end"]].tobytes()
    try:
        return codecs.decode(codec, piece) if codec else piece
    except TooLargeError:
        return None


def _with_unread(records: RawRecords, unread: Records, wanted: int) -> RawRecords:
    """Add a placeholder record for each batch that was not read, with its append time."""
    unread = unread[unread["base_offset"] + unread["last_delta"] >= wanted]
    if not len(unread):
        return records
    offsets = np.maximum(unread["base_offset"], wanted)
    at = np.searchsorted(records.offsets, offsets)
    return RawRecords(
        records.data,
        np.insert(records.offsets, at, offsets),
        np.insert(records.log_ms, at, unread["max_ms"]),
        np.insert(records.value_at, at, 0),
        np.insert(records.value_size, at, UNREAD),
        np.insert(records.headers_at, at, -1),
        read_headers,
    )


def _framed(data: U8, batches: Records, wanted: int) -> RawRecords:
    read = batches["skipped"] == 0
    sizes = batches["records_end"] - batches["records_at"]
    if (batches["count"] * RECORD_SIZE_MIN > sizes)[read].any():
        raise CorruptRecordException("a batch counts more records than it has room for")
    room = int(batches["count"][read].sum())
    offsets, log_ms, value_at, headers_at = (np.empty(room, np.int64) for _ in range(4))
    value_size = np.empty(room, np.int32)
    filled, bad = frame_records(data, batches, wanted, offsets, log_ms, value_at, value_size, headers_at)
    if bad >= 0:
        raise CorruptRecordException(f"the records of batch {bad} of {len(batches)} cannot be")
    return RawRecords(
        data,
        offsets[:filled],
        log_ms[:filled],
        value_at[:filled],
        value_size[:filled],
        headers_at[:filled],
        read_headers,
    )


def _next_offset(batches: Records, wanted: int) -> int:
    """The offset after the last batch, whatever compaction has left of it."""
    return max(wanted, int((batches["base_offset"] + batches["last_delta"]).max(initial=-1)) + 1)


def read_headers(data: U8, at: int) -> Headers:
    """The headers of a framed record; `at`: index of their count."""
    count, at = _varint(data, at)
    found: list[tuple[str, Any]] = []  # Kafka allows a header without a value, which aiokafka returns as None
    for _ in range(count):
        size, at = _varint(data, at)
        # An undecodable name matches nothing, and is no reason to stop a shard.
        name = data[at : at + size].tobytes().decode("utf-8", "replace")
        size, at = _varint(data, at + size)
        found.append((name, data[at : at + size].tobytes() if size >= 0 else None))
        at += max(size, 0)
    return tuple(found)


def _varint(data: U8, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = int(data[at])
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
