"""Remembers the ids of booked amounts for at least one horizon of log time.

One instance per topic: each topic has its own log time, and one that runs ahead would expire the ids of another.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import xxhash
from numpy.typing import ArrayLike, NDArray

from streams.engine.kernels.arrays import I64, INT64_MIN, U64, equal_lengths, exact
from streams.engine.kernels.idset import COUNT, HAS_ZERO, add_ids, insert_ids

_SMALLEST_TABLE = 1024


def identities128(texts: Iterable[str]) -> tuple[U64, U64]:
    """Hash ids to 128 bits, as the arrays (lo, hi) that SeenIds.add takes ([n] uint64); a lone surrogate is hashed, not refused."""
    digests = b"".join(xxhash.xxh3_128_digest(text.encode("utf-8", "surrogatepass")) for text in texts)
    words = np.frombuffer(digests, ">u8").reshape(-1, 2)
    return words[:, 1].astype(np.uint64), words[:, 0].astype(np.uint64)


class SeenPart(NamedTuple):
    """All of a SeenIds, or what was added since its last export; `clock` is [generation, started, newest]."""

    clock: I64
    lo: U64
    hi: U64
    older_lo: U64
    older_hi: U64


class _Table:
    """One generation of ids; at most half full."""

    __slots__ = ("hi", "lo", "state")

    def __init__(self, room: int = 0) -> None:
        capacity = max(_SMALLEST_TABLE, 1 << (2 * room - 1).bit_length()) if room else _SMALLEST_TABLE
        self.lo = np.zeros(capacity, np.uint64)
        self.hi = np.zeros(capacity, np.uint64)
        self.state = np.zeros(2, np.int64)

    def reserve(self, extra: int) -> None:
        """Grow until `extra` more keys fit."""
        room = int(self.state[COUNT]) + extra
        if 2 * room > len(self.lo):
            lo, hi = self.keys()
            self.__init__(room)  # type: ignore[misc]  # a grown table is a new table with the old keys
            insert_ids(lo, hi, self.lo, self.hi, self.state)

    def insert(self, lo: U64, hi: U64) -> None:
        self.reserve(len(lo))
        insert_ids(lo, hi, self.lo, self.hi, self.state)

    def keys(self) -> tuple[U64, U64]:
        used = np.flatnonzero((self.lo != 0) | (self.hi != 0))
        lo, hi = self.lo[used], self.hi[used]
        if self.state[HAS_ZERO]:
            lo, hi = np.append(lo, np.uint64(0)), np.append(hi, np.uint64(0))
        return lo, hi


class SeenIds:
    """Two generations of ids: a new one begins when the current is `horizon_ms` old, and the older is dropped."""

    def __init__(self, horizon_ms: int) -> None:
        self._horizon_ms = horizon_ms
        self._generation = 0
        self._started_ms = INT64_MIN
        self._newest_ms = INT64_MIN
        self._current = _Table()
        self._older = _Table()
        self._fresh: list[tuple[U64, U64]] = []
        self._older_fresh: list[tuple[U64, U64]] = []

    def __len__(self) -> int:
        """The number of remembered ids."""
        return sum(int(table.state.sum()) for table in (self._current, self._older))

    def add(self, lo: ArrayLike, hi: ArrayLike, log_time_ms: int) -> NDArray[np.bool_]:
        """Which ids are new ([n] bool); of equal ones in a call only the first is.

        Pass one batch at a time, with the log time of its first record: with a later one, an id that is still within
        the horizon of the batch's first records could expire before they are checked.
        """
        keys_lo, keys_hi = exact(lo, np.uint64), exact(hi, np.uint64)
        is_new = np.empty(equal_lengths(keys_lo, keys_hi), np.bool_)
        self._advance(log_time_ms)
        now, older = self._current, self._older
        now.reserve(len(keys_lo))
        add_ids(keys_lo, keys_hi, now.lo, now.hi, now.state, older.lo, older.hi, older.state, is_new)
        if is_new.any():
            self._fresh.append((keys_lo[is_new], keys_hi[is_new]))
        return is_new

    def _advance(self, log_time_ms: int) -> None:
        """Advance the log time, which never goes back here, whatever the leaders' clocks do."""
        if self._newest_ms == INT64_MIN:
            self._started_ms = log_time_ms
        self._newest_ms = max(self._newest_ms, log_time_ms)
        if self._newest_ms - self._started_ms >= self._horizon_ms:
            self._rotate()
            self._started_ms = self._newest_ms

    def _rotate(self) -> None:
        self._generation += 1
        self._older, self._current = self._current, _Table(int(self._current.state[COUNT]))
        self._older_fresh, self._fresh = self._fresh, []

    def export(self) -> SeenPart:
        """Everything; the next export_new() counts from here."""
        self._fresh, self._older_fresh = [], []
        return SeenPart(self._clock(), *self._current.keys(), *self._older.keys())

    def export_new(self) -> SeenPart:
        """What was added since the last export of either kind."""
        part = SeenPart(self._clock(), *_joined(self._fresh), *_joined(self._older_fresh))
        self._fresh, self._older_fresh = [], []
        return part

    def everything(self) -> SeenPart:
        """A copy of everything, to be written in pieces: see apply_older()."""
        return SeenPart(self._clock(), *self._current.keys(), *self._older.keys())

    def apply_older(self, part: SeenPart) -> None:
        """Add ids that were remembered at an earlier instant, except those of expired generations.

        Raises:
            ValueError: Increments are out of order.
        """
        age = self._generation - int(part.clock[0])
        if age < 0:
            raise ValueError(f"generation {part.clock[0]} before {self._generation}: increments out of order")
        tables = [self._current, self._older]
        for table, lo, hi in zip(
            tables[age:], (part.lo, part.older_lo), (part.hi, part.older_hi), strict=False
        ):
            table.insert(exact(lo, np.uint64), exact(hi, np.uint64))

    def apply(self, part: SeenPart) -> None:
        """Apply an export, or the increments after it in their order.

        Raises:
            ValueError: Increments are out of order.
        """
        generation, self._started_ms, self._newest_ms = (int(value) for value in part.clock)
        if generation < self._generation:
            raise ValueError(f"generation {generation} after {self._generation}: increments out of order")
        for _ in range(min(generation - self._generation, 2)):
            self._rotate()
        self._generation = generation
        self._current.insert(exact(part.lo, np.uint64), exact(part.hi, np.uint64))
        self._older.insert(exact(part.older_lo, np.uint64), exact(part.older_hi, np.uint64))

    @classmethod
    def restore(cls, horizon_ms: int, parts: Iterable[SeenPart]) -> SeenIds:
        """Build from an export and the increments after it, in their order."""
        seen = cls(horizon_ms)
        for part in parts:
            seen.apply(part)
        return seen

    def _clock(self) -> I64:
        return np.array([self._generation, self._started_ms, self._newest_ms], np.int64)


def _joined(pairs: list[tuple[U64, U64]]) -> tuple[U64, U64]:
    if not pairs:
        return np.empty(0, np.uint64), np.empty(0, np.uint64)
    return np.concatenate([lo for lo, _ in pairs]), np.concatenate([hi for _, hi in pairs])
