"""The log of a run: topics and partitions that grow as virtual time passes, and where a group committed."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass
from typing import NamedTuple

from streams.engine.batch import LogRecord
from streams.topics import REFERENCE_TOPICS
from tests.oracle.model import Line
from tests.simulator.world import EPOCH_MS


@dataclass(frozen=True)
class Written:
    """One record that a producer appends: what it is, and when."""

    append_ms: int
    line: Line  # what the oracle is told; refused records are not valid there
    value: bytes | None
    markers: int = 0  # offsets before it that no reader ever sees a record at


class Part(NamedTuple):
    """A topic and a partition."""

    topic: str
    partition: int


class Log:
    """All that will be written, and how much of it is there by now."""

    def __init__(self, writes: list[Written]) -> None:
        self.lines: list[Line] = []
        #: Each of them, and when it is appended.
        self.said: list[tuple[Line, int]] = []
        #: Where each record stands, in the order of `lines`.
        self.places: list[tuple[str, int, int]] = []
        self._records: dict[Part, list[LogRecord]] = {}
        self._offsets: dict[Part, list[int]] = {}
        for write in writes:
            part = Part(write.line.topic, write.line.partition)
            records = self._records.setdefault(part, [])
            offset = (records[-1].offset + 1 if records else 0) + write.markers
            headers = [(name, text.encode()) for name, text in (write.line.headers or {}).items()]
            records.append(LogRecord(offset, write.append_ms, write.value, headers))
            self._offsets.setdefault(part, []).append(offset)
            self.lines.append(write.line)
            self.said.append((write.line, write.append_ms))
            self.places.append((*part, offset))
        self.last_ms = max((write.append_ms for write in writes), default=EPOCH_MS)
        self._times = {part: [r.timestamp for r in records] for part, records in self._records.items()}

    def end(self, part: Part, now_ms: int) -> int:
        """The next offset to be written; records of this very millisecond are there."""
        times = self._times.get(part)
        if times is None:
            return 0
        count = bisect_left(times, now_ms + 1)
        return self._offsets[part][count - 1] + 1 if count else 0

    def read(self, part: Part, start: int, now_ms: int, most: int) -> tuple[int, list[LogRecord]]:
        """The records from an offset on that are there, and the position after them."""
        records = self._records.get(part)
        if records is None:
            return start, []
        first = bisect_left(self._offsets[part], start)
        stop = min(first + most, bisect_left(self._times[part], now_ms + 1))
        found = records[first:stop]
        return (found[-1].offset + 1 if found else start), found

    def next_write_ms(self, now_ms: int) -> int | None:
        """When the next record will be appended anywhere."""
        later = [
            times[place]
            for times in self._times.values()
            if (place := bisect_left(times, now_ms + 1)) < len(times)
        ]
        return min(later, default=None)

    def records(self, part: Part) -> list[LogRecord]:
        """All of a partition, now and to come."""
        return self._records.get(part, [])

    @property
    def shard_parts(self) -> list[Part]:
        """The partitions that shards read."""
        return sorted(part for part in self._records if part.topic not in REFERENCE_TOPICS)
