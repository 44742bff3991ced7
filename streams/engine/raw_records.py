"""The records of a fetch as bytes with the position of each; a record becomes an object only on access."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final, overload

from schemas.unread_batch import Unread
from streams.engine.batch import Headers, LogRecord, Record
from streams.engine.kernels.arrays import I32, I64, U8

#: `value_size` of a placeholder for a batch that could not be read.
UNREAD: Final = -2


class RawRecords(Sequence[Record]):
    """Records in offset order, usable as a sequence of LogRecord.

    Args:
        data: All bytes (uint8).
        offsets: [n] int64.
        log_ms: [n] int64, log time in ms.
        value_at: [n] int64, index into `data`.
        value_size: [n] int32, bytes; -1: a tombstone; UNREAD: a placeholder for a batch.
        headers_at: [n] int64, index of the record's header count in `data`; -1: no headers.
        read_headers: Called with (data, index); returns the headers of a record that has some.

    `ahead`: what was parsed of all values before, if anything; see `shard.columns_ahead`.
    """

    __slots__ = (
        "_read_headers",
        "ahead",
        "data",
        "headers_at",
        "log_ms",
        "offsets",
        "value_at",
        "value_size",
    )

    def __init__(
        self,
        data: U8,
        offsets: I64,
        log_ms: I64,
        value_at: I64,
        value_size: I32,
        headers_at: I64,
        read_headers: Callable[[U8, int], Headers],
    ) -> None:
        self.data = data.view()
        self.data.flags.writeable = False  # read-only, as bytes are: kernels are compiled for this type alone
        self.offsets = offsets
        self.log_ms = log_ms
        self.value_at = value_at
        self.value_size = value_size
        self.headers_at = headers_at
        self._read_headers = read_headers
        self.ahead: object = None

    def __len__(self) -> int:
        return len(self.offsets)

    @overload
    def __getitem__(self, index: int) -> LogRecord: ...
    @overload
    def __getitem__(self, index: slice) -> RawRecords: ...
    def __getitem__(self, index: int | slice) -> LogRecord | RawRecords:
        if isinstance(index, slice):
            return RawRecords(
                self.data,
                self.offsets[index],
                self.log_ms[index],
                self.value_at[index],
                self.value_size[index],
                self.headers_at[index],
                self._read_headers,
            )
        headers_at = int(self.headers_at[index])
        return LogRecord(
            int(self.offsets[index]),
            int(self.log_ms[index]),
            self.value(index),
            () if headers_at < 0 else self._read_headers(self.data, headers_at),
        )

    def __iter__(self) -> Iterator[LogRecord]:
        return map(self.__getitem__, range(len(self)))

    def value(self, index: int) -> bytes | None:
        """The event's bytes; None is a tombstone."""
        at, size = int(self.value_at[index]), int(self.value_size[index])
        if size == UNREAD:
            return Unread()
        return None if size < 0 else self.data[at : at + size].tobytes()

    @property
    def size_bytes(self) -> int:
        """The total size of the values."""
        return int(self.value_size.sum()) if len(self) else 0


def first_from(records: Sequence[Record], offset: int) -> int:
    """The index of the first record at or after an offset."""
    if isinstance(records, RawRecords):
        return int(records.offsets.searchsorted(offset))
    return bisect_left(records, offset, key=lambda record: record.offset)


def any_headers(records: Sequence[Record]) -> bool:
    """Whether any record has headers."""
    if isinstance(records, RawRecords):
        return bool((records.headers_at >= 0).any())
    return any(record.headers for record in records)
