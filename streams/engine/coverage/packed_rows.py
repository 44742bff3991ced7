"""Packs rows of old minutes, which are rarely read, into a few bytes each instead of 76 to 200.

An old row can still be changed, by a GPU that was never seen before, or read: it is then unpacked first, so
that a row is in one place only.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.names import Holder, HolderNames
from streams.engine.kernels.arrays import I64, INT64_MAX
from streams.engine.kernels.packed_rows import (
    HAS_SM,
    HAS_TENSOR,
    HEAD_BYTES,
    ROW_BYTES_MOST,
    SEGMENT_BYTES_MOST,
    pack_rows,
    unpack_rows,
)
from streams.engine.kernels.rings import drop_rows, find_reaching
from streams.engine.kernels.store import BEGINNING_MINUTE, BEGINNING_S, DIRTY, UNEXPORTED, Samples

#: Minutes between two packings, by the newest sample.
_EVERY: Final = 30
#: Rows younger than this and twice the late horizon are not packed. Of half an hour, alerts read the use of GPUs.
_YOUNG: Final = 16
#: When rows have doubled since the last packing, and are this many more, packing does not wait.
_MANY: Final = 50_000
#: Rows of a segment at most: unpacking one minute unpacks its segment.
_SEGMENT_ROWS: Final = 60
_SEGMENTS_PER_CALL: Final = 300
_HEAD: Final = struct.Struct("<IIiiB")


class PackedRows:
    """The packed rows of a coverage; it alone writes `Holder.packed` and `packed_to` of the holders."""

    def __init__(self, arrays: CoverageArrays, names: HolderNames, late_horizon_s: int) -> None:
        self._arrays = arrays
        self._names = names
        self._young = _YOUNG + 2 * late_horizon_s // 60
        self.packed_to = BEGINNING_MINUTE  # minute before which rows of any holder may be packed
        self.size_bytes = 0
        self._limit = BEGINNING_MINUTE  # of the last packing
        self._left = 0  # rows after it

    def pack(self) -> None:
        """Pack old rows that were drained and exported, if it is time; row numbers become invalid."""
        newest_s = int(self._arrays.store.slots["newest_s"][: self._arrays.slots].max(initial=BEGINNING_S))
        limit = max(newest_s // 60 - self._young, self._limit)
        has_many = self._arrays.rows >= 2 * self._left + _MANY
        if newest_s == BEGINNING_S or (limit < self._limit + _EVERY and not has_many):
            return
        self._limit = limit
        store = self._arrays.store
        rows = store.rows[: self._arrays.rows]
        is_done = rows["flags"] & (DIRTY | UNEXPORTED) == 0
        old = np.flatnonzero((rows["holder"] >= 0) & (rows["minute"] < limit) & is_done)
        if len(old):
            self._pack(old[np.lexsort((rows["minute"][old], rows["holder"][old]))])
            store.rows["holder"][old] = -1
            self._arrays.compact_rows()
        self._left = self._arrays.rows

    def _pack(self, rows: I64) -> None:
        """Append rows, sorted by holder and minute, to their holders' packed rows."""
        store = self._arrays.store
        holder, minute = store.rows["holder"][rows], store.rows["minute"][rows]
        begins = np.flatnonzero(np.diff(holder, prepend=-1))
        lengths = np.diff(begins, append=len(rows))
        segments = np.flatnonzero((np.arange(len(rows)) - np.repeat(begins, lengths)) % _SEGMENT_ROWS == 0)
        ptr = np.append(segments, len(rows))
        for first in range(0, len(segments), _SEGMENTS_PER_CALL):
            part = ptr[first : first + _SEGMENTS_PER_CALL + 1]
            size = int(part[-1] - part[0])
            out = np.empty(size * ROW_BYTES_MOST + len(part) * SEGMENT_BYTES_MOST, np.uint8)
            out_ptr = np.empty(len(part), np.int64)
            pack_rows(rows, part, store, out, out_ptr)
            data, ends = out[: out_ptr[-1]].tobytes(), out_ptr.tolist()
            for k, number in enumerate(holder[part[:-1]].tolist()):
                self._names.by_number(number).packed += data[ends[k] : ends[k + 1]]
            self.size_bytes += len(data)
        lasts = minute[begins + lengths - 1] + 1
        owners = holder[begins]
        store.holders["packed_to"][owners] = np.maximum(store.holders["packed_to"][owners], lasts)
        self.packed_to = max(self.packed_to, int(lasts.max()))

    def unpack(self, wanted: Mapping[int, Sequence[int]]) -> None:
        """Unpack the rows of holders (by number) in some minutes (ascending), and others of the same segments."""
        taken: list[bytes] = []
        numbers: list[int] = []
        counts: list[int] = []
        parts = 0
        packed_to = self._arrays.store.holders["packed_to"]
        for number, minutes in wanted.items():
            if minutes[0] >= packed_to[number]:
                continue
            holder = self._names.by_number(number)
            left: list[bytes] = []
            known = len(taken)
            for segment, rows, first, last, has in _segments(holder.packed):
                if bisect_left(minutes, first) < bisect_right(minutes, last):
                    taken.append(segment)
                    numbers.append(number)
                    counts.append(rows)
                    parts |= has
                else:
                    left.append(segment)
            if len(taken) > known:
                self._set(holder, b"".join(left))
        if taken:
            self._open(taken, numbers, counts, parts)

    def _open(self, segments: list[bytes], numbers: list[int], counts: list[int], parts: int) -> None:
        arrays = self._arrays
        arrays.use_planes(parts & HAS_SM != 0, parts & HAS_TENSOR != 0)
        arrays.reserve_rows(sum(counts))
        ptr = np.cumsum([0, *map(len, segments)])
        data = np.frombuffer(b"".join(segments), np.uint8).copy()  # writable, as kernels require
        work = np.empty(max(counts), np.int64)
        broken = unpack_rows(data, ptr, np.array(numbers, np.int64), arrays.store, work)
        if broken >= 0:
            raise ValueError(f"old rows of {self._names.by_number(numbers[broken]).job_id} cannot be read")

    def unpack_reached(self, samples: Samples, first: int, stop: int, horizon_s: int) -> None:
        """Unpack what the records [first, stop) may change."""
        begin_s = samples.begin_s[first:stop][samples.group[first:stop] > 0]
        if self.packed_to == BEGINNING_MINUTE or int(begin_s.min(initial=INT64_MAX)) // 60 >= self.packed_to:
            return
        room = int(samples.value_ptr[stop] - samples.value_ptr[first])
        holders, lo, hi = (np.empty(room, np.int64) for _ in range(3))
        found = find_reaching(first, stop, horizon_s, self._arrays.store, samples, holders, lo, hi)
        minutes: dict[int, set[int]] = {}
        for number, lowest, highest in zip(
            *(each[:found].tolist() for each in (holders, lo, hi)), strict=True
        ):
            minutes.setdefault(number, set()).update(range(lowest, highest + 1))
        self.unpack({number: sorted(those) for number, those in minutes.items()})

    def unpack_pairs(self, holders: I64, minutes: I64) -> None:
        """Unpack the rows of each (holder, minute)."""
        if not len(minutes) or int(minutes.min()) >= self.packed_to:
            return
        old = np.flatnonzero(minutes < self._arrays.store.holders["packed_to"][holders])
        wanted: dict[int, set[int]] = {}
        for number, minute in zip(holders[old].tolist(), minutes[old].tolist(), strict=True):
            wanted.setdefault(number, set()).add(minute)
        self.unpack({number: sorted(those) for number, those in wanted.items()})

    def unpack_ranges(self, holders: I64, lo: I64, hi: I64) -> None:
        """Unpack the rows of each holder in its minutes [lo, hi)."""
        wanted: dict[int, set[int]] = {}
        packed_to = self._arrays.store.holders["packed_to"]
        old = np.flatnonzero(lo < packed_to[holders])
        for k in old.tolist():
            number = int(holders[k])
            if self._names.by_number(number).packed:  # else none is packed
                minutes = range(int(lo[k]), min(int(hi[k]), int(packed_to[number])))
                wanted.setdefault(number, set()).update(minutes)
        self.unpack({number: sorted(those) for number, those in wanted.items()})

    def replace(self, whole: dict[int, tuple[bytes, int]]) -> None:
        """Replace all rows of these holders (by number) by packed ones; each comes with its last minute."""
        self._arrays.free_rows += drop_rows(np.array(list(whole), np.int64), self._arrays.store)
        for number, (packed, packed_to) in whole.items():
            self._set(self._names.by_number(number), packed)
            self._arrays.store.holders["packed_to"][number] = packed_to
            self.packed_to = max(self.packed_to, packed_to)

    def evictable(self, before_minute: int) -> list[tuple[str, int]]:
        """The attempts (job_id, attempt) of which `evict` drops rows."""
        owners = (
            (holder.job_id, holder.attempt)
            for holder in self._droppable()
            if not holder.is_idle
            and any(last < before_minute for _, _, _, last, _ in _segments(holder.packed))
        )
        return list(dict.fromkeys(owners))

    def _droppable(self) -> list[Holder]:
        counting = self._arrays.store.holders["counting"]
        return [holder for holder in self._names.all() if holder.packed and not counting[holder.number]]

    def evict(self, before_minute: int, *, idle: bool) -> int:
        """Drop older rows of GPUs that no job has, or else of attempts without counts; return how many."""
        dropped = 0
        for holder in self._droppable():
            if holder.is_idle != idle:
                continue
            kept: list[bytes] = []
            for segment, rows, _, last, _ in _segments(holder.packed):
                if last >= before_minute:
                    kept.append(segment)
                else:
                    dropped += rows
            self._set(holder, b"".join(kept))
        return dropped

    def forget(self, holders: Iterable[Holder]) -> None:
        """Drop the packed rows of these holders."""
        for holder in holders:
            self._set(holder, b"")

    def _set(self, holder: Holder, packed: bytes) -> None:
        self.size_bytes += len(packed) - len(holder.packed)
        holder.packed = packed


def _segments(packed: bytes) -> Iterator[tuple[bytes, int, int, int, int]]:
    """Yield each segment: its bytes, number of rows, first and last minute, and parts."""
    at = 0
    while at < len(packed):
        if at + HEAD_BYTES > len(packed):
            raise ValueError("old rows are cut off")
        size, rows, first, last, parts = _HEAD.unpack_from(packed, at)
        if size < HEAD_BYTES or at + size > len(packed) or rows > size * _SEGMENT_ROWS:
            raise ValueError("old rows are cut off")
        yield packed[at : at + size], rows, first, last, parts
        at += size
