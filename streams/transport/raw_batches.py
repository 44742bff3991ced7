"""The bytes of one fetch of one partition -> RawRecords: checksums, aborted transactions, decompression, framing.

The checksum is google-crc32c's (Apache-2.0, wheels with the processor's own instruction): aiokafka's compiled one takes
ten times as long, which is as long as all the rest of this.  It must not hold state between two fetches, nor give part
of a fetch: what cannot be read raises CorruptRecordException, as aiokafka does, and is fetched again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import google_crc32c
import numpy as np
from aiokafka.codec import gzip_decode, lz4_decode, snappy_decode, zstd_decode
from aiokafka.errors import CorruptRecordException, UnsupportedCodecError
from aiokafka.record.control_record import ABORT_MARKER, ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.util import calc_crc32c

from streams.kernels.arrays import U8, Records
from streams.kernels.framing import (
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
from streams.pipeline.batch import Headers
from streams.pipeline.raw import RawRecords

_DECODERS: Final[dict[int, Callable[[bytes], bytes]]] = {
    1: gzip_decode,
    2: snappy_decode,
    3: lz4_decode,
    4: zstd_decode,
}
_MARKER_SIZE: Final = 4  # a version and a type
#: A transaction of a producer that was aborted, and its first offset in this partition.
Aborted = tuple[int, int]
# Without its compiled part google-crc32c is slower than aiokafka.
_checksum: Callable[[Any], int] = google_crc32c.value if google_crc32c.implementation == "c" else calc_crc32c


@dataclass(frozen=True, slots=True)
class Fetched:
    """Records at or after the offset that was asked for, and the offset to ask for next."""

    records: RawRecords
    next_offset: int


def read_fetch(
    fetched: bytes | memoryview,
    wanted: int,
    aborted: Iterable[Aborted] | None,
    *,
    check_crcs: bool,
    read_committed: bool,
) -> Fetched | None:
    """Index what a broker answered for one partition, asked from offset `wanted` on; None: it holds an older format.

    Raises CorruptRecordException, UnsupportedCodecError.
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
    if (batches["attributes"] & CODEC).any():
        data = _decompressed(data, batches)
    return Fetched(_framed(data, batches, wanted), _next_offset(batches, wanted))


def _check(data: U8, batches: Records) -> None:
    places = zip(batches["at"].tolist(), batches["end"].tolist(), batches["checksum"].tolist(), strict=True)
    for at, end, checksum in places:
        if _checksum(data[at + BEFORE_CHECKSUM : end]) != checksum:
            raise CorruptRecordException(f"Invalid CRC of the batch at byte {at}")


def _skip_aborted(fetched: bytes | memoryview, batches: Records, aborted: Iterable[Aborted]) -> None:
    """Mark what belongs to transactions that were aborted; a marker among the batches ends each."""
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


def _decompressed(data: U8, batches: Records) -> U8:
    """The records of all batches behind each other, which are told where they stand."""
    pieces: list[bytes] = []
    end = 0
    for batch in batches:
        if batch["skipped"]:
            continue
        piece = data[batch["records_at"] : batch["records_end"]].tobytes()
        codec = int(batch["attributes"] & CODEC)
        if codec:
            piece = _decode(codec, piece)
        pieces.append(piece)
        batch["records_at"], end = end, end + len(piece)
        batch["records_end"] = end
    return np.frombuffer(b"".join(pieces), np.uint8)


def _decode(codec: int, piece: bytes) -> bytes:
    decoder = _DECODERS.get(codec)
    if decoder is None:
        raise UnsupportedCodecError(f"Unknown compression codec {codec:#04x}")
    try:
        return decoder(piece)
    except Exception as fault:  # each library has errors of its own
        raise CorruptRecordException(f"a batch cannot be decompressed: {fault}") from fault


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
    """Behind the last batch, whatever compaction has left of it."""
    return max(wanted, int((batches["base_offset"] + batches["last_delta"]).max(initial=-1)) + 1)


def read_headers(data: U8, at: int) -> Headers:
    """The headers of a record that was framed; `at`: index of their number."""
    count, at = _varint(data, at)
    found: list[
        tuple[str, Any]
    ] = []  # Kafka allows a header without a value, as aiokafka hands it over: None
    for _ in range(count):
        size, at = _varint(data, at)
        # A name that is no text is none that anybody looks for, and no reason to stop a shard.
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
