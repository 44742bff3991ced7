"""Summaries of samples that are in the coverage but not yet applied to their attempts, one entry per attempt.

A fetch contains little that is new to each attempt, and while catching up there are many fetches between two
checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import BEGINNING_MS, NEVER_MS
from streams.engine.kernels.arrays import I32, I64, U8
from streams.engine.state.sample_times import NO_SOURCE

#: Limit of rows of newest samples: a few MiB.
MOST_WAITING: Final = 65_536

_NEWEST: Final = np.dtype(
    [
        ("owner", np.int32),
        ("shape", np.int32),
        ("time_ms", np.int64),
        ("interval_ms", np.int64),
        ("text", np.int32),  # index into the ids; -1: none
    ]
)


class NewestSample(NamedTuple):
    """The newest sample of some minutes of an owner; one of several if they have the same time."""

    owner: int
    shape: int
    time_ms: int
    interval_ms: int
    id: str


class PendingSamples:
    """Summaries by owner number."""

    def __init__(self) -> None:
        self._first_ms = np.zeros(0, np.int64)
        self._last_ms = np.zeros(0, np.int64)
        self._source = np.zeros(0, np.int64)  # of the last, as its key
        self._rows: list[NDArray[Any]] = []  # of _NEWEST
        self._ids: list[str] = []
        self._waiting = 0

    def __len__(self) -> int:
        """How many rows wait."""
        return self._waiting

    def resize(self, owners: int) -> None:
        """Make room for this many owners."""
        more = max(owners, 2 * len(self._first_ms)) - len(self._first_ms)
        if owners > len(self._first_ms):
            self._first_ms = np.concatenate((self._first_ms, np.full(more, NEVER_MS)))
            self._last_ms = np.concatenate((self._last_ms, np.full(more, BEGINNING_MS)))
            self._source = np.concatenate((self._source, np.full(more, NO_SOURCE)))

    def seen(self, owners: I32, first_ms: I64, last_ms: I64, sources: I64) -> None:
        """Record that owners ([n], each once) have samples from first to last `time_ms` in a fetch, the last of these sources (keys)."""
        before_ms, known = self._last_ms[owners], self._source[owners]
        known = np.where(last_ms > before_ms, NO_SOURCE, known)
        self._source[owners] = np.where(last_ms >= before_ms, np.maximum(known, sources), known)
        self._first_ms[owners] = np.minimum(self._first_ms[owners], first_ms)
        self._last_ms[owners] = np.maximum(before_ms, last_ms)
        self._waiting += len(owners)

    def newest(
        self, owner: I32, shape: I32, time_ms: I64, interval_ms: I64, id_at: I64, id_size: I32, data: U8
    ) -> None:
        """Add the newest samples ([n]) of their minutes in a fetch; ids are ASCII in `data`."""
        if not len(owner):  # only samples that cover no second
            return
        rows = np.empty(len(owner), _NEWEST)
        rows["owner"], rows["shape"] = owner, shape
        rows["time_ms"], rows["interval_ms"] = time_ms, interval_ms
        rows["text"] = -1
        named = np.flatnonzero(id_size)
        rows["text"][named] = np.arange(len(self._ids), len(self._ids) + len(named))
        self._ids.extend(
            data[at : at + size].tobytes().decode("ascii")
            for at, size in zip(id_at[named].tolist(), id_size[named].tolist(), strict=True)
        )
        self._rows.append(rows)

    def drain_seen(self) -> tuple[I64, I64, I64, I64]:
        """Owners ([n]), their first and last `time_ms` and the source of the last, of all seen; their newest samples must be drained next."""
        owners = np.flatnonzero(self._first_ms != NEVER_MS)
        first_ms, last_ms, sources = self._first_ms[owners], self._last_ms[owners], self._source[owners]
        self._first_ms[owners], self._last_ms[owners] = NEVER_MS, BEGINNING_MS
        self._source[owners] = NO_SOURCE
        return owners, first_ms, last_ms, sources

    def drain_newest(self, owners: Collection[int]) -> list[NewestSample]:
        """The newest sample of each minute of these owners, and drop those of all others."""
        ids = self._ids
        found = [
            NewestSample(owner, shape, time_ms, interval_ms, ids[text] if text >= 0 else "")
            for owner, shape, time_ms, interval_ms, text in self._last_of_minutes(owners)
        ]
        self._rows, self._ids, self._waiting = [], [], 0
        return found

    def _last_of_minutes(self, owners: Collection[int]) -> list[tuple[int, int, int, int, int]]:
        """Return, of samples of an owner that cover the same minutes, the newest; several if their times are equal."""
        if not self._rows or not owners:
            return []
        rows = np.concatenate(self._rows)
        is_asked = np.zeros(len(self._first_ms), np.bool_)
        is_asked[list(owners)] = True
        rows = rows[is_asked[rows["owner"]]]
        if not len(rows):
            return []
        lo = (rows["time_ms"] - rows["interval_ms"]) // 1000 // 60
        hi = (rows["time_ms"] // 1000 - 1) // 60
        order = np.lexsort((rows["time_ms"], hi, lo, rows["owner"]))
        rows, lo, hi = rows[order], lo[order], hi[order]
        starts = np.ones(len(rows), np.bool_)
        starts[1:] = (rows["owner"][1:] != rows["owner"][:-1]) | (lo[1:] != lo[:-1]) | (hi[1:] != hi[:-1])
        group = np.cumsum(starts) - 1
        last = np.append(np.flatnonzero(starts)[1:], len(rows)) - 1
        found: list[tuple[int, int, int, int, int]] = rows[
            rows["time_ms"] == rows["time_ms"][last][group]
        ].tolist()
        return found
