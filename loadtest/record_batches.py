"""Record batches of the log whose bytes hardly change from second to second: a template, and what is patched in it."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from aiokafka.record._crecords.cutil import crc32c_cython as crc32c
from numpy.typing import NDArray

U8 = NDArray[np.uint8]

_HEADER: Final = struct.Struct(">qiibIhiqqqhii")
#: The checksum is over everything behind it.
_CRC_AT: Final = 17
_BODY_AT: Final = 21
_BASE_MS_AT: Final = 27
_MAX_MS_AT: Final = 35
HEADER_BYTES: Final = _HEADER.size
_MAGIC: Final = 2

SECONDS_DIGITS: Final = 10
RATIO_DIGITS: Final = 3
#: Stand in for what is patched: the seconds of an instant, and the thousandths of a ratio, "0.xyz".
SECONDS_MARK: Final = b"#" * SECONDS_DIGITS
RATIO_MARK: Final = b"~" * RATIO_DIGITS

#: [1000, 3]: the digits of 0 to 999, as bytes.
_THOUSANDTHS: Final[U8] = np.array([list(b"%03d" % number) for number in range(1000)], np.uint8)


class Record(NamedTuple):
    """One message of a template; its value holds SECONDS_MARK once, and RATIO_MARK for each ratio."""

    key: bytes
    value: bytes
    offset_ms: int  # of its instant in the second: 0 to 999


class Template:
    """One batch of a partition: the same messages again each second, with other instants and ratios."""

    def __init__(self, records: Sequence[Record]) -> None:
        """Records in order of `offset_ms`, each with as many ratios as the others."""
        body = bytearray()
        for number, record in enumerate(records):
            body += _framed(record, number)
        whole = _header(len(body), len(records)) + bytes(body)
        self._bytes = np.frombuffer(whole, np.uint8)
        self.records = len(records)
        self.size_bytes = len(whole)
        seconds_at = _marks(whole, SECONDS_MARK)
        ratios_at = _marks(whole, RATIO_MARK)
        if len(seconds_at) != len(records) or len(ratios_at) % max(len(records), 1):
            raise ValueError("a value lacks its mark of seconds, or has another number of ratios")
        self._seconds_at = (seconds_at[:, None] + np.arange(SECONDS_DIGITS)).ravel()
        self._ratios_at = (ratios_at[:, None] + np.arange(RATIO_DIGITS)).ravel()
        self._last_ms = records[-1].offset_ms if records else 0

    def batches(self, first_s: int, permille: NDArray[np.uint16]) -> list[memoryview]:
        """The batches of consecutive seconds, ready to be sent.

        `permille`: [seconds, records, ratios of a record], 0 to 999.
        """
        count = len(permille)
        found = np.empty((count, self.size_bytes), np.uint8)
        found[:] = self._bytes
        found[:, self._ratios_at] = _THOUSANDTHS[permille.reshape(count, -1)].reshape(count, -1)
        for row, at_s in zip(found, range(first_s, first_s + count), strict=True):
            digits = np.frombuffer(b"%010d" % at_s, np.uint8)
            row[self._seconds_at] = np.tile(digits, self.records)
            instants = struct.pack(">qq", at_s * 1000, at_s * 1000 + self._last_ms)
            row[_BASE_MS_AT : _MAX_MS_AT + 8] = np.frombuffer(instants, np.uint8)
            crc = struct.pack(">I", crc32c(row[_BODY_AT:].data))
            row[_CRC_AT:_BODY_AT] = np.frombuffer(crc, np.uint8)
        return [row.data for row in found]


def _header(body_bytes: int, records: int) -> bytes:
    length = HEADER_BYTES - 12 + body_bytes
    # Offset 0, leader epoch, magic, crc, attributes, last offset, both instants, no producer id, epoch, sequence, count.
    return _HEADER.pack(0, length, -1, _MAGIC, 0, 0, records - 1, 0, 0, -1, -1, -1, records)


def _framed(record: Record, number: int) -> bytes:
    body = b"\x00" + varint(record.offset_ms) + varint(number)
    body += varint(len(record.key)) + record.key + varint(len(record.value)) + record.value + b"\x00"
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """A number as records have it: zigzag, seven bits a byte, the lowest first."""
    left = (number << 1) ^ (number >> 63)
    found = bytearray()
    while left > 0x7F:
        found.append(left & 0x7F | 0x80)
        left >>= 7
    return bytes((*found, left))


def _marks(whole: bytes, mark: bytes) -> NDArray[np.int64]:
    return np.fromiter(_found(whole, mark), np.int64)


def _found(whole: bytes, mark: bytes) -> Iterable[int]:
    at = whole.find(mark, HEADER_BYTES)
    while at >= 0:
        yield at
        at = whole.find(mark, at + len(mark))
