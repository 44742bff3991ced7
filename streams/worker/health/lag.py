"""Measures the consumer lag of each shard: records behind, age of the oldest unread record, time without progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from streams.engine.shard.sequencer import TICK_MS
from streams.topics import SHARD_TOPICS
from streams.worker.shards.owned_shard import OwnedShard

#: (topic, shard, next offset to fold) -> the end of the partition in the log; None: unknown.
EndOf = Callable[[str, int, int], int | None]

#: Time without a poll beyond this does not count as standing still: the process may have been frozen.
_UNSEEN_MS: Final = 5_000


@dataclass(frozen=True)
class ShardLag:
    """The lag of one shard at one poll."""

    number: int
    records: Mapping[str, int]  # by topic: in the log and not folded
    age_ms: Mapping[str, int]  # by topic: age of the oldest of them
    idle_ms: int  # how long it has folded nothing although it is behind

    @property
    def behind(self) -> int:
        """The records of all topics."""
        return sum(self.records.values())


class LagSource:
    """A clock that stops while nobody polls."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._last_ms: int | None = None

    def advance(self, monotonic_ms: int) -> int:
        """Advance by the time since the last call, up to a limit; return the clock's time (ms)."""
        last_ms, self._last_ms = self._last_ms, monotonic_ms
        if last_ms is not None:
            self.now_ms += min(monotonic_ms - last_ms, _UNSEEN_MS)
        return self.now_ms


@dataclass
class _Trace:
    """What was observed of a shard."""

    mark: tuple[int, int | None]
    moved_ms: int
    caught_up_ms: dict[str, int]  # by topic: ms since 1970 UTC


class LagTracker:
    """Remembers when each shard last made progress; a revoked shard is dropped."""

    def __init__(self) -> None:
        self._traces: WeakKeyDictionary[OwnedShard, _Trace] = WeakKeyDictionary()

    def measure(
        self, shards: Iterable[OwnedShard], end_of: EndOf, watched_ms: int, clock_ms: int
    ) -> list[ShardLag]:
        """The lag of each shard; `watched_ms` is of a `LagSource`."""
        return [self._shard(owned, end_of, watched_ms, clock_ms) for owned in shards]

    def _shard(self, owned: OwnedShard, end_of: EndOf, watched_ms: int, clock_ms: int) -> ShardLag:
        folded = {str(topic): owned.shard.position.next.get(topic, 0) for topic in SHARD_TOPICS}
        mark = (sum(folded.values()), owned.shard.position.tick_ms)
        trace = self._traces.get(owned)
        if trace is None:
            trace = self._traces[owned] = _Trace(mark, watched_ms, {})
        records: dict[str, int] = {}
        age_ms: dict[str, int] = {}
        for topic, offset in folded.items():
            end = end_of(topic, owned.number, offset)
            records[topic] = 0 if end is None else max(end - offset, 0)
            if end is not None and not records[topic]:
                trace.caught_up_ms[topic] = clock_ms
            age_ms[topic] = self._age_ms(owned, trace, topic, clock_ms) if records[topic] else 0
        if mark != trace.mark or not any(records.values()):
            trace.mark, trace.moved_ms = mark, watched_ms
        return ShardLag(owned.number, records, age_ms, watched_ms - trace.moved_ms)

    @staticmethod
    def _age_ms(owned: OwnedShard, trace: _Trace, topic: str, clock_ms: int) -> int:
        """The age of the oldest unread record: exact if it was fetched, else since all before it was folded.

        The log time of a record that was not fetched is unknown. It is later than that of the newest record read, than
        the last judged tick, and than the last poll at which nothing was left.
        """
        exact_ms = owned.align.head_ms(topic)
        if exact_ms is not None:
            return max(clock_ms - exact_ms, 0)
        bounds_ms = [owned.align.read_ms(topic), trace.caught_up_ms.get(topic)]
        if owned.shard.position.tick_ms is not None:
            bounds_ms.append(owned.shard.position.tick_ms - TICK_MS)
        known_ms = [each for each in bounds_ms if each is not None]
        if not known_ms:
            known_ms = [trace.caught_up_ms.setdefault(topic, clock_ms)]  # it has waited at least since now
        return max(clock_ms - max(known_ms), 0)
