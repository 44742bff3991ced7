"""The arrays of a coverage: they grow before a kernel call and shrink after jobs are forgotten.

No caller may hold an array across a call that reallocates.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.engine.kernels.arrays import I32, I64
from streams.engine.kernels.rings import chain_rows, fill_cells, rows_of_pairs
from streams.engine.kernels.store import (
    BEGINNING_MINUTE,
    BEGINNING_S,
    COUNTS,
    DIRTY,
    DIRTY_ROWS,
    DRAINED,
    HOLDER,
    PLANE,
    ROW,
    ROWS,
    SLOT,
    UNEXPORTED,
    UNEXPORTED_ROWS,
    UNEXPORTED_SLOTS,
    UNTOUCHED_S,
    USED_SIZE,
    CoverageStore,
)

_SMALLEST_INDEX = 64


def grown(array: NDArray[Any], room: int) -> NDArray[Any]:
    """The array if it has the room, else a zero-filled copy that is at least half as large again."""
    if len(array) >= room:
        return array
    larger = np.zeros((max(room, len(array) * 3 // 2), *array.shape[1:]), array.dtype)
    larger[: len(array)] = array
    return larger


class CoverageArrays:
    """A store with spare capacity; `store` is replaced whenever an array is."""

    def __init__(self, width_s: int) -> None:
        self.holders = 0
        self.slots = 0
        self.groups = 0
        self.free_rows = self.free_slots = self.free_counts = 0  # of forgotten holders
        ring = np.zeros((0, width_s), np.uint16)
        plane = np.zeros(0, PLANE)
        none = np.zeros(0, np.int32)
        self.store = CoverageStore(
            slots=np.zeros(0, SLOT),
            ring=ring,
            sm_ring=ring.copy(),
            tensor_ring=ring.copy(),
            holders=np.zeros(0, HOLDER),
            rows=np.zeros(0, ROW),
            sm_rows=plane,
            tensor_rows=plane.copy(),
            counts=np.zeros((0, 60), np.uint16),
            cells=np.zeros(_SMALLEST_INDEX, np.int32),
            group_ptr=np.zeros(2, np.int64),
            group_slot=none,
            dirty=none.copy(),
            unexported=none.copy(),
            unexported_slots=none.copy(),
            used=np.zeros(USED_SIZE, np.int64),
        )
        self.has_sm = False
        self.has_tensor = False
        self.group_holders = np.zeros(1, np.int64)  # by group
        #: By slot, until when it worked last, or since when it is sampled; see `unused`. BEGINNING_S: no sample covered it.
        self.worked_s: I64 = np.zeros(0, np.int64)
        self.clear_groups()

    @property
    def rows(self) -> int:
        """The number of rows in use, forgotten ones included."""
        return int(self.store.used[ROWS])

    def add_holder(self, counting: bool) -> int:
        """Add a holder and return its number; `counting`: its rows have counts."""
        if self.holders == len(self.store.holders):
            self.store = self.store._replace(holders=grown(self.store.holders, self.holders + 1))
        self.store.holders[self.holders] = (-1, counting, BEGINNING_MINUTE, 0)
        self.holders += 1
        return self.holders - 1

    def reserve_slots(self, extra: int) -> None:
        """Reserve room for `extra` new slots."""
        room = self.slots + extra
        if room > len(self.store.slots):
            slots = grown(self.store.slots, room)
            self.worked_s = grown(self.worked_s, len(slots))
            self.store = self.store._replace(
                slots=slots,
                ring=grown(self.store.ring, len(slots)),
                sm_ring=grown(self.store.sm_ring, len(slots) if self.has_sm else 0),
                tensor_ring=grown(self.store.tensor_ring, len(slots) if self.has_tensor else 0),
                unexported_slots=grown(self.store.unexported_slots, len(slots)),
            )

    def add_slots(self, holders: Sequence[int], ordinals: Sequence[int]) -> None:
        """Add slots without a second, numbered from `slots` on; `ordinals`: the index of each GPU in its holder."""
        if not holders:
            return
        self.reserve_slots(len(holders))
        first = self.slots
        self.slots += len(holders)
        slots = self.store.slots[first : self.slots]
        slots["newest_s"], slots["touched_s"] = BEGINNING_S, UNTOUCHED_S
        self.worked_s[first : self.slots] = BEGINNING_S
        slots["holder"], slots["ordinal"] = holders, ordinals
        np.add.at(self.store.holders["gpus"], holders, 1)

    def add_groups(self, slots: Sequence[int], ends: Sequence[int], holders: Sequence[int]) -> None:
        """Add groups, numbered from `groups` on: the slots of a record's GPUs in order, each group up to its end.

        `holders`: how many holders the slots of each group have.
        """
        if not ends:
            return
        store = self.store
        first, count = int(store.group_ptr[self.groups]), len(ends)
        if self.groups + 1 + count > len(store.group_ptr) or first + len(slots) > len(store.group_slot):
            store = self.store = store._replace(
                group_ptr=grown(store.group_ptr, self.groups + 1 + count),
                group_slot=grown(store.group_slot, first + len(slots)),
            )
        store.group_slot[first : first + len(slots)] = slots
        store.group_ptr[self.groups + 1 : self.groups + 1 + count] = first + np.array(ends, np.int64)
        self.group_holders = grown(self.group_holders, self.groups + count)
        self.group_holders[self.groups : self.groups + count] = holders
        self.groups += count

    def clear_groups(self) -> None:
        """Remove all groups but group 0, which has no slot."""
        self.groups = 1
        self.store.group_ptr[:2] = 0

    def reserve_rows(self, extra: int) -> None:
        """Reserve room for `extra` rows with their counts, index cells and marks."""
        room = self.rows + extra
        store = self.store
        if room > len(store.rows):
            rows = grown(store.rows, room)
            store = store._replace(
                rows=rows,
                sm_rows=grown(store.sm_rows, len(rows) if self.has_sm else 0),
                tensor_rows=grown(store.tensor_rows, len(rows) if self.has_tensor else 0),
                dirty=grown(store.dirty, len(rows)),
                unexported=grown(store.unexported, len(rows)),
            )
        store = store._replace(counts=grown(store.counts, int(store.used[COUNTS]) + extra))
        if 2 * room > len(store.cells):
            store = store._replace(cells=np.zeros(1 << (2 * room - 1).bit_length(), np.int32))
            fill_cells(store)
        self.store = store

    def drain_dirty(self, urgent: I32 | None = None) -> I64:
        """The changed rows ([n] int64), which are not dirty any more.

        `urgent`: leave rows that were drained before for a later call, but for those of these holders.
        """
        store = self.store
        rows = store.dirty[: store.used[DIRTY_ROWS]].astype(np.int64)
        left = rows[:0]
        if urgent is not None:
            waits = store.rows["flags"][rows] & DRAINED != 0
            waits &= ~np.isin(store.rows["holder"][rows], urgent)
            rows, left = rows[~waits], rows[waits]
        store.rows["flags"][rows] = store.rows["flags"][rows] & ~DIRTY | DRAINED
        store.dirty[: len(left)] = left
        store.used[DIRTY_ROWS] = len(left)
        return rows[store.rows["holder"][rows] >= 0]

    def find_rows(self, holders: I64, minutes: I64) -> tuple[I64, I64]:
        """The row of each (holder, minute) ([n] int64; -1: none), and its sampled GPU-seconds ([n] int64)."""
        rows, sampled_gpu_s = np.empty(len(holders), np.int64), np.zeros(len(holders), np.int64)
        rows_of_pairs(holders, minutes, self.store, rows)
        known = rows >= 0
        sampled_gpu_s[known] = self.store.rows["sampled_gpu_s"][rows[known]]
        return rows, sampled_gpu_s

    def use_planes(self, sm: bool, tensor: bool) -> None:
        """Allocate the optional planes from now on."""
        slots, rows = len(self.store.slots), len(self.store.rows)
        if sm and not self.has_sm:
            self.has_sm = True
            self.store = self.store._replace(
                sm_ring=grown(self.store.sm_ring, slots), sm_rows=grown(self.store.sm_rows, rows)
            )
        if tensor and not self.has_tensor:
            self.has_tensor = True
            self.store = self.store._replace(
                tensor_ring=grown(self.store.tensor_ring, slots),
                tensor_rows=grown(self.store.tensor_rows, rows),
            )

    def is_sparse(self, spare: int) -> bool:
        """Whether more than half, and more than `spare` entries, of any array belong to no holder."""
        pairs = (
            (self.free_rows, self.rows),
            (self.free_slots, self.slots),
            (self.free_counts, int(self.store.used[COUNTS])),
        )
        return any(free > spare and 2 * free > used for free, used in pairs)

    def compact(self, holders: list[int]) -> tuple[I32, I32]:
        """Keep only these holders; return the new numbers of holders and of slots, indexed by the old ones."""
        old = self.store
        used, slots = old.rows[: self.rows], old.slots[: self.slots]
        slots_kept = np.flatnonzero(slots["holder"] >= 0)
        new_holder, new_slot = (
            _numbers(self.holders, np.array(holders, np.int64)),
            _numbers(self.slots, slots_kept),
        )
        slots = slots[slots_kept]
        slots["holder"] = new_holder[slots["holder"]]
        is_kept = used["holder"] >= 0
        used["holder"][is_kept] = new_holder[used["holder"][is_kept]]
        touched = np.flatnonzero(slots["touched_s"] != UNTOUCHED_S).astype(np.int32)
        old.used[UNEXPORTED_SLOTS] = len(touched)
        self.holders, self.slots = len(holders), len(slots)
        self.worked_s = self.worked_s[slots_kept]
        self.store = old._replace(
            slots=slots,
            ring=old.ring[slots_kept],
            sm_ring=old.sm_ring[slots_kept] if self.has_sm else old.sm_ring,
            tensor_ring=old.tensor_ring[slots_kept] if self.has_tensor else old.tensor_ring,
            holders=old.holders[holders],
            group_ptr=np.zeros(2, np.int64),
            group_slot=np.zeros(0, np.int32),
            unexported_slots=grown(touched, len(slots)),
        )
        self.free_slots = 0
        self.clear_groups()
        self.compact_rows()
        return new_holder, new_slot

    def compact_rows(self) -> None:
        """Keep only rows that have a holder; other numbers stay."""
        old = self.store
        kept = np.flatnonzero(old.rows["holder"][: self.rows] >= 0)
        rows = old.rows[kept]
        counted = np.flatnonzero(rows["counts_at"] >= 0)
        counts = old.counts[rows["counts_at"][counted]]
        rows["counts_at"][counted] = np.arange(len(counted))
        dirty = np.flatnonzero(rows["flags"] & DIRTY).astype(np.int32)
        unexported = np.flatnonzero(rows["flags"] & UNEXPORTED).astype(np.int32)
        old.holders["newest_row"] = -1
        for place, length in (
            (ROWS, rows),
            (COUNTS, counts),
            (DIRTY_ROWS, dirty),
            (UNEXPORTED_ROWS, unexported),
        ):
            old.used[place] = len(length)
        self.store = old._replace(
            rows=rows,
            sm_rows=old.sm_rows[kept] if self.has_sm else old.sm_rows,
            tensor_rows=old.tensor_rows[kept] if self.has_tensor else old.tensor_rows,
            counts=counts,
            cells=np.zeros(max(_SMALLEST_INDEX, 1 << (2 * len(rows)).bit_length()), np.int32),
            dirty=grown(dirty, len(rows)),
            unexported=grown(unexported, len(rows)),
        )
        self.free_rows = self.free_counts = 0
        chain_rows(self.store)
        fill_cells(self.store)


def _numbers(size: int, kept: I64) -> I32:
    """The index among the kept ones by old number, -1 for the others."""
    new = np.full(size, -1, np.int32)
    new[kept] = np.arange(len(kept))
    return new
