"""Orders ticks between records: tick t comes after all records with log time <= t, before any with a later one.

It holds records back and never drops one; it does not fold, judge or read a clock.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import NEVER_MS
from streams.engine.batch import LogBatch, Record
from streams.engine.kernels import episode
from streams.engine.raw_records import RawRecords
from streams.topics import SHARD_TOPICS

TICK_MS: Final = episode.TICK_MS

_TOPICS: Final = tuple(str(topic) for topic in SHARD_TOPICS)
_AS_COLUMNS: Final = ("gpu",)  # topics whose records are never made into objects

#: (topic, next offset to read) -> the log time up to which no record from that offset on exists; -1: unknown.
Horizon = Callable[[str, int], int]


class FoldStep(NamedTuple):
    """Fold these records now."""

    batch: LogBatch


class Ticks(NamedTuple):
    """Judge the ticks first_ms, first_ms + TICK_MS, ... last_ms now: no record lies between them."""

    first_ms: int
    last_ms: int


@dataclass(slots=True)
class _WaitingBatch:
    """A fetched batch from record `first` on, with the log time of each record (non-decreasing)."""

    batch: LogBatch
    log_ms: NDArray[np.int64]
    first: int = 0


def _log_times(records: Sequence[Record]) -> NDArray[np.int64]:
    if isinstance(records, RawRecords):
        return records.log_ms
    return np.fromiter((record.timestamp for record in records), np.int64, len(records))


class Sequencer:
    """The records of one shard that were read and not folded. Each topic must be offered in order."""

    def __init__(self, next_offsets: Mapping[str, int], tick_ms: int | None = None) -> None:
        #: The next tick to judge; None until the first record is known.
        self.tick_ms = tick_ms
        #: The log time of the first record, if the shard was begun here: nobody has read any before.
        self.begun_ms: int | None = None
        self._waiting: dict[str, deque[_WaitingBatch]] = {topic: deque() for topic in _TOPICS}
        self._end = dict(next_offsets)
        self._log_ms: dict[str, int] = {}

    def next_offset(self, topic: str) -> int:
        """The next offset to read: everything before it was folded or waits here."""
        return self._end.get(topic, 0)

    def waiting(self, topic: str) -> int:
        """How many records of the topic wait."""
        return sum(len(each.log_ms) - each.first for each in self._waiting[topic])

    @property
    def waits(self) -> bool:
        """Whether any record waits."""
        return any(self._waiting.values())

    def read_ms(self, topic: str) -> int | None:
        """The log time of the newest record read; None before the first."""
        return self._log_ms.get(topic)

    def reset(self, next_offsets: Mapping[str, int]) -> None:
        """Drop what waits: it will be read again from these offsets."""
        for waiting in self._waiting.values():
            waiting.clear()
        self._end = dict(next_offsets)
        self._log_ms.clear()

    def offer(self, batch: LogBatch, latest_ms: int = NEVER_MS) -> int | None:
        """Queue a batch; return the offset to read again from if records before it are missing, else None.

        A log time after `latest_ms` is replaced by it: a broker with a wrong clock must not hold records back for long.
        """
        expected = self.next_offset(batch.topic)
        if batch.start > expected:
            return expected
        log_ms = np.minimum(_log_times(batch.records), latest_ms)
        before_ms = self._log_ms.get(batch.topic)
        if before_ms is not None and log_ms.size:
            log_ms[0] = max(before_ms, log_ms[0])
        log_ms = np.maximum.accumulate(log_ms)
        if log_ms.size:
            self._log_ms[batch.topic] = int(log_ms[-1])
        self._waiting[batch.topic].append(_WaitingBatch(batch, log_ms))
        self._end[batch.topic] = max(expected, batch.end)
        return None

    def steps(self, horizon: Horizon) -> Iterator[FoldStep | Ticks]:
        """Yield what may be done now, in order. Each step must be done before the next is requested."""
        if self.tick_ms is None and not self._find_first_tick(horizon):
            return
        while self.tick_ms is not None:
            for topic, waiting in self._waiting.items():
                while waiting and (part := self._next_batch(topic, self.tick_ms)) is not None:
                    yield FoldStep(part)
            until_ms = self._all_quiet_until_ms(horizon, self.tick_ms)
            if until_ms is None:
                return
            last_ms = until_ms // TICK_MS * TICK_MS
            first_ms, self.tick_ms = self.tick_ms, last_ms + TICK_MS
            yield Ticks(first_ms, last_ms)

    def _find_first_tick(self, horizon: Horizon) -> bool:
        """Find the first tick: the one at or after the shard's first record in any topic."""
        heads = [head for topic in _TOPICS if (head := self.head_ms(topic)) is not None]
        if not heads:
            return False
        start_ms = min(heads)
        for topic in _TOPICS:
            if self.head_ms(topic) is None and horizon(topic, self.next_offset(topic)) < start_ms:
                return False
        self.begun_ms = start_ms
        self.tick_ms = -(-start_ms // TICK_MS) * TICK_MS
        return True

    def head_ms(self, topic: str) -> int | None:
        """The log time of the first waiting record."""
        for each in self._waiting[topic]:
            if each.first < len(each.log_ms):
                return int(each.log_ms[each.first])
        return None

    def _all_quiet_until_ms(self, horizon: Horizon, tick_ms: int) -> int | None:
        """The watermark of all topics; None if one is before the tick, which the first topic usually shows."""
        until_ms = NEVER_MS
        for topic in _TOPICS:
            until_ms = min(until_ms, self._quiet_until_ms(topic, horizon))
            if until_ms < tick_ms:
                return None
        return until_ms

    def _quiet_until_ms(self, topic: str, horizon: Horizon) -> int:
        head_ms = self.head_ms(topic) if self._waiting[topic] else None
        return horizon(topic, self.next_offset(topic)) if head_ms is None else head_ms - 1

    def _next_batch(self, topic: str, tick_ms: int) -> LogBatch | None:
        """The next records of the topic with log time <= tick_ms as a batch."""
        waiting = self._waiting[topic]
        if not waiting:
            return None
        each = waiting[0]
        batch, size = each.batch, len(each.log_ms)
        stop = size if not size or each.log_ms[-1] <= tick_ms else bisect_right(each.log_ms, tick_ms)
        if stop == each.first and size:
            return None
        first, each.first = each.first, stop
        if stop == size:
            waiting.popleft()
        if first == 0 and stop == size:
            return batch
        if isinstance(batch.records, RawRecords) and topic not in _AS_COLUMNS:
            # For many cuts: each record is made once, and slicing a list costs nothing.
            each.batch = batch = replace(batch, records=list(batch.records))
        records = batch.records[first:stop]
        start = batch.start if first == 0 else batch.records[first].offset
        end = batch.end if stop == size else batch.records[stop].offset
        return LogBatch(topic, batch.partition, start, end, records)
