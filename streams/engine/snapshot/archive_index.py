"""An index of archived jobs with the version of their state: about 34 bytes each, dropped after a time limit.

Producers choose job ids, so a key is a 128-bit hash of the id, seeded per store: nobody can make two ids collide. This
module does not read the archive; a caller that finds a job missing there calls `forget`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from schemas.durations import DAY_MS
from streams.engine.kernels.arrays import Records

#: An archived job: halves of its key, the version of its state, the day (since 1970, UTC) of its last event.
ENTRY: Final = np.dtype([("hi", "<u8"), ("lo", "<u8"), ("version", "<u8"), ("day", "<u2")])
_LAST_DAY: Final = 2**16 - 1
_FEW: Final = 1024  # new entries are merged into the sorted ones from this many on
_HALF: Final = 2**64

_Key = tuple[int, int]


class ArchiveIndex:
    """Maps a 128-bit key to the version of a job's state and the day of its last event."""

    def __init__(self, seed: bytes = b"") -> None:
        self.seed = seed
        self._rows: Records = np.zeros(0, ENTRY)  # by `hi`
        self._hi: NDArray[np.uint64] = np.zeros(0, np.uint64)  # contiguous copy of `hi` for the search
        self._recent: dict[_Key, tuple[int, int]] = {}  # version and day; takes precedence over the rows
        self.lost: set[str] = set()  # ids that the archive lacks

    def __len__(self) -> int:
        return len(self._rows) + len(self._recent)

    @property
    def nbytes(self) -> int:
        """The size of the sorted entries."""
        return int(self._rows.nbytes + self._hi.nbytes)

    def version_of(self, job_id: str) -> int | None:
        """The version of the job's state; None if it is not known to be archived."""
        return self._version(self._key(job_id))

    def add(self, job_id: str, version: int, last_ms: int) -> None:
        """Add a job that leaves memory; `last_ms`: the last instant that anything of it refers to."""
        self._recent[self._key(job_id)] = version, _day(last_ms)
        if len(self._recent) > max(_FEW, len(self._rows) // 8):
            self._sort_in()

    def forget(self, job_ids: Iterable[str]) -> None:
        """Drop jobs that the archive lacks: each is a new job."""
        self._sort_in()
        forgotten = list(job_ids)
        self.lost.update(forgotten)
        self._remove(map(self._key, forgotten))

    def forget_before(self, first_ms: int) -> None:
        """Drop jobs whose last event is before that day."""
        self._sort_in()
        stays = self._rows["day"] >= first_ms // DAY_MS
        if not stays.all():
            self._set(self._rows[stays])

    # -- snapshots -----------------------------------------------------------------------------------------

    def entries_of(self, job_ids: Iterable[str]) -> bytes:
        """The entries of these jobs, for `load`."""
        self._sort_in()
        places = (self._place(self._key(job_id)) for job_id in job_ids)
        return self._rows[sorted(place for place in places if place is not None)].tobytes()

    def entries_between(self, first: int, stop: int) -> bytes:
        """The entries in a range of the upper half of keys, for `load`."""
        self._sort_in()
        begin, end = np.searchsorted(self._hi, np.array([first, min(stop, _HALF - 1)], np.uint64)).tolist()
        return self._rows[begin : len(self._rows) if stop >= _HALF else end].tobytes()

    def load(self, entries: bytes) -> None:
        """Add dumped entries; they replace those of the same jobs."""
        if entries:
            self._sort_in()
            self._merge(np.frombuffer(entries, ENTRY))

    # -- the table -----------------------------------------------------------------------------------------

    def _key(self, job_id: str) -> _Key:
        data = job_id.encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(data, digest_size=16, key=self.seed).digest()
        return int.from_bytes(digest[:8], "little"), int.from_bytes(digest[8:], "little") or 1

    def _version(self, key: _Key) -> int | None:
        recent = self._recent.get(key)
        if recent is not None:
            return recent[0]
        place = self._place(key)
        return None if place is None else int(self._rows["version"][place])

    def _place(self, key: _Key) -> int | None:
        place = int(np.searchsorted(self._hi, np.uint64(key[0])))
        while place < len(self._hi) and int(self._hi[place]) == key[0]:
            if int(self._rows["lo"][place]) == key[1]:
                return place
            place += 1
        return None

    def _sort_in(self) -> None:
        if self._recent:
            entries = sorted((*key, *entry) for key, entry in self._recent.items())
            self._recent = {}
            self._merge(np.array(entries, ENTRY))

    def _remove(self, keys: Iterable[_Key]) -> None:
        places = [place for key in keys if (place := self._place(key)) is not None]
        if places:
            self._set(np.delete(self._rows, places))

    def _merge(self, entries: Records) -> None:
        """Sorted by `hi`, each job once."""
        at = np.searchsorted(self._hi, entries["hi"])
        near = at < len(self._hi)
        near[near] = self._hi[at[near]] == entries["hi"][near]
        is_new = ~near
        for index in np.flatnonzero(near).tolist():
            place = self._place((int(entries["hi"][index]), int(entries["lo"][index])))
            if place is None:
                is_new[index] = True
            else:
                self._rows[place] = entries[index]
        if is_new.any():
            self._set(np.insert(self._rows, at[is_new], entries[is_new]))

    def _set(self, rows: Records) -> None:
        self._rows = rows
        self._hi = np.ascontiguousarray(rows["hi"], np.uint64)


def ranges(count: int) -> Iterator[tuple[int, int]]:
    """Yield `count` ranges [first, stop) that cover the upper half of all keys."""
    for number in range(count):
        yield number * _HALF // count, (number + 1) * _HALF // count


def _day(at_ms: int) -> int:
    return min(max(at_ms // DAY_MS, 0), _LAST_DAY)
