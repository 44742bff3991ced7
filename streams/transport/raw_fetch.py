"""Replaces aiokafka's object per record by one object per fetch, for the fetcher that is watched."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException

from streams import fallbacks
from streams.engine.raw_records import RawRecords
from streams.fallbacks import OLD_FORMAT
from streams.transport.decompressed import DecompressedBytes
from streams.transport.function_copy import rebound
from streams.transport.raw_batches import Aborted, FetchedPartition, read_fetch

logger = logging.getLogger(__name__)

#: Is given what was fetched of a partition.
ReadAhead = Callable[[Any, RawRecords], None]


class AsRaw:
    """Takes the place of a consumer's value deserialiser, which so receives RawRecords; aiokafka passes it to the code that reads a fetch."""

    def __init__(
        self, decoded: DecompressedBytes | None = None, read_ahead: ReadAhead = lambda _tp, _records: None
    ) -> None:
        self.decoded = decoded
        self.read_ahead = read_ahead

    def __call__(self, value: bytes | None) -> bytes | None:
        """The value unchanged."""
        return value


#: In both formats the size of the following bytes comes after the offset.
_SIZE_AT: Final = 8
_BATCH_AT: Final = 12

_own_bytes: Final[Any] = fetcher.MemoryRecords
_own_records: Final[Any] = fetcher.PartitionRecords


class FetchedBytes:
    """The part of aiokafka's MemoryRecords that the fetcher uses, and the bytes themselves; MemoryRecords would copy them."""

    __slots__ = ("fetched",)

    def __init__(self, fetched: bytes | memoryview) -> None:
        self.fetched = fetched

    @property
    def own(self) -> Any:
        """Aiokafka's MemoryRecords."""
        return _own_bytes(bytes(self.fetched))

    def has_next(self) -> bool:
        """Whether there is a complete batch, or message of an older format; a broker may truncate the last one."""
        size = int.from_bytes(self.fetched[_SIZE_AT:_BATCH_AT], "big", signed=True)
        return self.size_in_bytes() >= _BATCH_AT and _BATCH_AT + size <= self.size_in_bytes()

    def size_in_bytes(self) -> int:
        """The number of bytes."""
        return len(self.fetched)


class RawPartitionRecords:
    """Replaces aiokafka's PartitionRecords: yields one object, or none if there is no record; then it ends.

    `next_fetch_offset`: where to continue; it moves when the object is taken, not before. The bytes are read, and their
    records read ahead, immediately, in the consumer's thread while the agent processes earlier batches; errors are raised where the object
    is taken.
    """

    def __init__(
        self,
        tp: Any,
        fetched: bytes | memoryview,
        aborted: list[Aborted] | None,
        fetch_offset: int,
        check_crcs: bool,
        isolation_level: int,
        reads: AsRaw,
    ) -> None:
        self.next_fetch_offset = fetch_offset
        self._tp = tp
        self._isolation_level = isolation_level
        committed = isolation_level == fetcher.READ_COMMITTED
        found: FetchedPartition | Exception | None
        try:
            found = read_fetch(
                fetched,
                fetch_offset,
                aborted,
                check_crcs=check_crcs,
                read_committed=committed,
                decoded=reads.decoded,
            )
            if found is not None and len(found.records):
                reads.read_ahead(tp, found.records)
        except Exception as fault:  # noqa: BLE001 - raised here, it would end aiokafka's fetch task
            found = fault
        self._unread = self._old_format(fetched, aborted, check_crcs) if found is None else self._given(found)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return next(self._unread)

    def _given(self, found: FetchedPartition | Exception) -> Iterator[RawRecords]:
        """Yield the object. A generator that has raised is exhausted: the fetcher then requests the position again."""
        if isinstance(found, CorruptRecordException):
            raise CorruptRecordException(f"{found.args[0]} - {self._tp}") from found
        if isinstance(found, Exception):
            raise found
        self.next_fetch_offset = found.next_offset
        if len(found.records):
            yield found.records

    def _old_format(
        self, fetched: bytes | memoryview, aborted: list[Aborted] | None, check_crcs: bool
    ) -> Iterator[Any]:
        logger.debug(
            "partition holds an older record format",
            extra={"topic": self._tp.topic, "partition": self._tp.partition},
        )
        fallbacks.counts[OLD_FORMAT] += 1
        own = _own_records(
            self._tp,
            FetchedBytes(fetched).own,
            aborted,
            self.next_fetch_offset,
            None,
            None,
            check_crcs,
            self._isolation_level,
        )
        for record in own:
            self.next_fetch_offset = own.next_fetch_offset
            yield record
        self.next_fetch_offset = own.next_fetch_offset


def _partition_records(
    tp: Any,
    records: FetchedBytes,
    aborted: list[Aborted] | None,
    fetch_offset: int,
    key_deserializer: Any,
    value_deserializer: Any,
    check_crcs: bool,
    isolation_level: int,
) -> Any:
    """Replace the constructor; the fetcher calls it with arguments in this order."""
    if isinstance(value_deserializer, AsRaw):
        return RawPartitionRecords(
            tp,
            records.fetched,
            aborted,
            fetch_offset,
            check_crcs,
            isolation_level,
            value_deserializer,
        )
    return _own_records(
        tp,
        records.own,
        aborted,
        fetch_offset,
        key_deserializer,
        value_deserializer,
        check_crcs,
        isolation_level,
    )


def watch(fetcher_of_one: Any) -> None:
    """Install this in one fetcher; call it before the first fetch."""
    fetch = rebound(
        type(fetcher_of_one)._proc_fetch_request,
        MemoryRecords=FetchedBytes,
        PartitionRecords=_partition_records,
    )
    fetcher_of_one._proc_fetch_request = MethodType(fetch, fetcher_of_one)


def only_raw(records: list[Any]) -> RawRecords | None:
    """The single object of a fetch; None: plain records."""
    return records[0] if len(records) == 1 and isinstance(records[0], RawRecords) else None
