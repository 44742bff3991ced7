"""The first and last sample times of jobs as columns, for samples that change nothing else of a job.

A busy shard learns of samples of all its jobs each second, and reads the times of few of them. Plain memory.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import xxhash

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.kernels.arrays import I32, I64

#: The key of no source.
NO_SOURCE: Final = -1


def source_key(name: str) -> int:
    """A number of a source's name: of two whose records are of one instant the one with the larger counts as the newer."""
    return xxhash.xxh3_64_intdigest(name.encode("utf-8", "surrogatepass")) >> 1 if name else NO_SOURCE


class SampleTimes:
    """First and last `time_ms` by place, and the source of the last; a job has a place from its first such sample until it leaves memory."""

    def __init__(self) -> None:
        self._first_ms = np.zeros(0, np.int64)
        self._last_ms = np.zeros(0, np.int64)
        self._source = np.zeros(0, np.int64)
        self._free: list[int] = []
        self._names: dict[int, str] = {}
        self._moved: set[int] = set()

    def take(self) -> int:
        """A place without samples."""
        if not self._free:
            count = len(self._first_ms)
            more = max(count, 64)
            self._first_ms = np.concatenate((self._first_ms, np.full(more, NEVER_MS)))
            self._last_ms = np.concatenate((self._last_ms, np.full(more, BEGINNING_MS)))
            self._source = np.concatenate((self._source, np.full(more, NO_SOURCE)))
            self._free = list(range(count + more - 1, count - 1, -1))
        return self._free.pop()

    def release(self, place: int) -> None:
        """Give a place back."""
        self._first_ms[place], self._last_ms[place] = NEVER_MS, BEGINNING_MS
        self._source[place] = NO_SOURCE
        self._moved.discard(place)
        self._free.append(place)

    def know(self, names: dict[int, str]) -> None:
        """Take the names of sources by their keys in place of those that no place has."""
        kept = set(np.unique(self._source).tolist())
        self._names = {key: name for key, name in self._names.items() if key in kept} | names

    def merge(self, places: I32, first_ms: I64, last_ms: I64, sources: I64) -> None:
        """Record samples ([n]), the last of each of this source; attempts of one job have the same place."""
        before_ms, before = self._last_ms[places], self._source[places]
        np.minimum.at(self._first_ms, places, first_ms)
        np.maximum.at(self._last_ms, places, last_ms)
        now_ms = self._last_ms[places]
        self._source[places[now_ms > before_ms]] = NO_SOURCE
        newest = last_ms == now_ms
        np.maximum.at(self._source, places[newest], sources[newest])
        self._moved.update(places[self._source[places] != before].tolist())

    def forget_source(self, place: int) -> None:
        """Take the next sample's source as another one, even if it is the same: the job has had a newer sign meanwhile."""
        self._source[place] = NO_SOURCE

    def take_moved(self, place: int) -> bool:
        """Whether the last sample has had another source than before since this was asked for."""
        if place not in self._moved:
            return False
        self._moved.remove(place)
        return True

    def lists(self) -> tuple[list[int], list[int]]:
        """The first and the last sample by place, as above, for who asks for those of many jobs."""
        return self._first_ms.tolist(), self._last_ms.tolist()

    def first_ms(self, place: int) -> int:
        """The first sample; NEVER_MS: none."""
        return int(self._first_ms.item(place))

    def last_ms(self, place: int) -> int:
        """The last sample; BEGINNING_MS: none."""
        return int(self._last_ms.item(place))

    def source(self, place: int) -> str:
        """The source of the last sample; '': none."""
        return self._names.get(int(self._source.item(place)), "")
