"""How far each shard is behind the log, since when the oldest unread record waits, and since when nothing moves.

It must not ask anybody: shards, ends and both times are handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from streams.agents.held import Held
from streams.pipeline.align import TICK_MS
from streams.topics import SHARD_TOPICS

#: (topic, shard, next offset to fold) -> the end of the partition in the log; None: not known.
EndOf = Callable[[str, int, int], int | None]

#: A worker that was frozen, or nobody who looked: time that does not count as standing still.
_UNSEEN_MS: Final = 5_000


@dataclass(frozen=True)
class Standing:
    """One shard at one look."""

    number: int
    records: Mapping[str, int]  # by topic: in the log and not folded
    age_ms: Mapping[str, int]  # by topic: how old the oldest of them is
    idle_ms: int  # for how long it has folded nothing although it is behind

    @property
    def behind(self) -> int:
        """Records of all topics."""
        return sum(self.records.values())


class Watched:
    """A clock that stands while nobody looks."""

    def __init__(self) -> None:
        self.now_ms = 0
        self._last_ms: int | None = None

    def look(self, monotonic_ms: int) -> int:
        """Move on, by no more than one can answer for."""
        last_ms, self._last_ms = self._last_ms, monotonic_ms
        if last_ms is not None:
            self.now_ms += min(monotonic_ms - last_ms, _UNSEEN_MS)
        return self.now_ms


@dataclass
class _Trace:
    """What was seen of a shard."""

    mark: tuple[int, int | None]
    moved_ms: int
    caught_up_ms: dict[str, int]  # by topic: ms since 1970 UTC


class Progress:
    """Remembers of each shard when it last moved; one that leaves is forgotten."""

    def __init__(self) -> None:
        self._traces: WeakKeyDictionary[Held, _Trace] = WeakKeyDictionary()

    def look(self, shards: Iterable[Held], end_of: EndOf, watched_ms: int, clock_ms: int) -> list[Standing]:
        """All shards as they stand: `watched_ms` of a clock that stands while nobody looks."""
        return [self._shard(held, end_of, watched_ms, clock_ms) for held in shards]

    def _shard(self, held: Held, end_of: EndOf, watched_ms: int, clock_ms: int) -> Standing:
        folded = {str(topic): held.shard.next.get(topic, 0) for topic in SHARD_TOPICS}
        mark = (sum(folded.values()), held.shard.tick_ms)
        trace = self._traces.get(held)
        if trace is None:
            trace = self._traces[held] = _Trace(mark, watched_ms, {})
        records: dict[str, int] = {}
        age_ms: dict[str, int] = {}
        for topic, offset in folded.items():
            end = end_of(topic, held.number, offset)
            records[topic] = 0 if end is None else max(end - offset, 0)
            if end is not None and not records[topic]:
                trace.caught_up_ms[topic] = clock_ms
            age_ms[topic] = self._age_ms(held, trace, topic, clock_ms) if records[topic] else 0
        if mark != trace.mark or not any(records.values()):
            trace.mark, trace.moved_ms = mark, watched_ms
        return Standing(held.number, records, age_ms, watched_ms - trace.moved_ms)

    @staticmethod
    def _age_ms(held: Held, trace: _Trace, topic: str, clock_ms: int) -> int:
        """Exact where the record waits to be folded; else since the latest instant up to which all is folded.

        The log time of a record that was not fetched is unknown.  It is later than that of the newest one read, than
        the last tick judged, and than the last look at which nothing was left.
        """
        exact_ms = held.align.head_ms(topic)
        if exact_ms is not None:
            return max(clock_ms - exact_ms, 0)
        bounds_ms = [held.align.read_ms(topic), trace.caught_up_ms.get(topic)]
        if held.shard.tick_ms is not None:
            bounds_ms.append(held.shard.tick_ms - TICK_MS)
        known_ms = [each for each in bounds_ms if each is not None]
        if not known_ms:
            known_ms = [trace.caught_up_ms.setdefault(topic, clock_ms)]  # it waits at least since now
        return max(clock_ms - max(known_ms), 0)
