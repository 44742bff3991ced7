"""The input of the engine: the records of one fetch of one partition, and the offsets that the fetch covered.

Plain data, whether it comes from Kafka, from the embedded broker or from a test.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

#: Kafka headers; a name may occur more than once.
Headers = Sequence[tuple[str, bytes]]


class Record(Protocol):
    """One log record; aiokafka's ConsumerRecord satisfies it. `timestamp` is the log time in ms."""

    @property
    def offset(self) -> int:
        """Position in the partition's log."""

    @property
    def timestamp(self) -> int:
        """Log time, ms since 1970."""

    @property
    def value(self) -> bytes | None:
        """The event; None is a tombstone."""

    @property
    def headers(self) -> Headers:
        """Kafka headers, for CloudEvents in binary mode."""


@dataclass(frozen=True, slots=True)
class LogRecord:
    """A plain record, for tests and in-process feeds."""

    offset: int
    timestamp: int
    value: bytes | None
    headers: Headers = ()


@dataclass(frozen=True, slots=True)
class LogBatch:
    """Records of `topic` (without prefix) in offset order, all within the interval [start, end).

    Offsets of the interval without a record (markers, aborted or compacted records) are valid. A batch that starts
    above the next expected offset is not: records were lost in a fetch and must be fetched again.
    """

    topic: str
    partition: int
    start: int
    end: int
    records: Sequence[Record]
