"""Covered seconds: the largest permille per (slot, second) in rings, and their sums per (holder, minute).

The caller reserves rows, index cells and slots before each call.
"""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I32, U16, Records
from streams.engine.kernels.store import (
    BEGINNING_S,
    COUNTS,
    DIRTY,
    DIRTY_ROWS,
    ROWS,
    UNEXPORTED,
    UNEXPORTED_ROWS,
    UNEXPORTED_SLOTS,
    UNTOUCHED_S,
    CoverageStore,
    Samples,
)

COUNT_MAX = 2**16 - 1
_LARGEST = 9.0e18


@helper
def find_row(holder: int, minute: int, cells: I32, rows: Records) -> int:
    """The index cell with row + 1, or the empty (0) cell where it belongs."""
    mask = cells.size - 1
    # Both products stay below 2**62: no wrap-around, so the cell is the same without the JIT.
    mixed = np.int64(holder) * 1640531527 + np.int64(minute) * 1103515245
    at = int((mixed ^ (mixed >> 17)) & mask)
    while cells[at] != 0:
        row = cells[at] - 1
        if rows[row]["holder"] == holder and rows[row]["minute"] == minute:
            break
        at = (at + 1) & mask
    return at


@helper
def open_row(holder: int, minute: int, store: CoverageStore) -> int:
    """The row of (holder, minute), created if needed."""
    at = find_row(holder, minute, store.cells, store.rows)
    if store.cells[at] != 0:
        return int(store.cells[at]) - 1
    row = int(store.used[ROWS])
    store.used[ROWS] += 1
    store.cells[at] = row + 1
    store.rows[row]["holder"] = holder
    store.rows[row]["minute"] = minute
    store.rows[row]["older"] = store.holders[holder]["newest_row"]
    store.holders[holder]["newest_row"] = row
    store.rows[row]["counts_at"] = -1
    if store.holders[holder]["counting"] != 0:
        store.rows[row]["counts_at"] = store.used[COUNTS]
        store.used[COUNTS] += 1
    return row


@helper
def mark_unexported(row: int, store: CoverageStore) -> None:
    """Add the row to the next increment, once."""
    if store.rows[row]["flags"] & UNEXPORTED == 0:
        store.rows[row]["flags"] |= UNEXPORTED
        store.unexported[store.used[UNEXPORTED_ROWS]] = row
        store.used[UNEXPORTED_ROWS] += 1


@helper
def _mark_changed(row: int, store: CoverageStore) -> None:
    mark_unexported(row, store)
    if store.rows[row]["flags"] & DIRTY == 0:
        store.rows[row]["flags"] |= DIRTY
        store.dirty[store.used[DIRTY_ROWS]] = row
        store.used[DIRTY_ROWS] += 1


@helper
def touch_slot(slot: int, from_s: int, store: CoverageStore) -> None:
    """Add the slot's seconds from `from_s` on to the next increment."""
    if store.slots[slot]["touched_s"] == UNTOUCHED_S:
        store.unexported_slots[store.used[UNEXPORTED_SLOTS]] = slot
        store.used[UNEXPORTED_SLOTS] += 1
    store.slots[slot]["touched_s"] = min(store.slots[slot]["touched_s"], from_s)


@helper
def clear_gap(slot: int, newest_s: int, begin_s: int, ring: U16) -> None:
    """Clear the seconds after the newest and before `begin_s`, whose cells hold older seconds."""
    if newest_s == BEGINNING_S or ring.shape[0] == 0:
        return
    width = ring.shape[1]
    for second in range(max(newest_s + 1, begin_s - width), begin_s):
        ring[slot, second % width] = 0


@helper
def _permille(values: F64, at: int) -> int:
    """Round the IEEE double product half to even; -1 without a value."""
    if values.size == 0 or np.isnan(values[at]):
        return -1
    return int(np.int64(np.rint(values[at] * 1000.0)))


@helper
def _raise_to(values: F64, at: int, greatest: int) -> int:
    """The maximum of `greatest` and the value, rounded half to even and clamped to int64."""
    if values.size == 0 or np.isnan(values[at]):
        return greatest
    return max(int(np.int64(np.rint(min(values[at], _LARGEST)))), greatest)


@helper
def _merge(
    slot: int, lo_s: int, hi_s: int, newest_s: int, permille: int, ring: U16, counts_at: int, counts: U16
) -> tuple[int, int]:
    """Max-merge the seconds [lo_s, hi_s) of one minute; return the seconds and the permille gained."""
    width = ring.shape[1]
    at = lo_s % width
    minute_s = lo_s // 60 * 60
    seconds = 0
    gained = 0
    for second in range(lo_s, hi_s):
        was = 0
        if second <= newest_s:
            was = int(np.int64(ring[slot, at]))
        if was <= permille:
            ring[slot, at] = permille + 1
            if was == 0:
                seconds += 1
                gained += permille
                if counts_at >= 0 and counts[counts_at, second - minute_s] < COUNT_MAX:
                    counts[counts_at, second - minute_s] += 1
            else:
                gained += permille + 1 - was
        elif was == 0:
            # No value; the cell of a new second still holds one that left the ring.
            ring[slot, at] = 0
        at += 1
        if at == width:
            at = 0
    return seconds, gained


@helper
def _merge_plane(
    slot: int,
    lo_s: int,
    hi_s: int,
    newest_s: int,
    permille: int,
    ring: U16,
    plane: Records,
    row: int,
    counts: U16,
) -> bool:
    """Merge an optional plane likewise."""
    if ring.shape[0] == 0:
        return False
    seconds, gained = _merge(slot, lo_s, hi_s, newest_s, permille, ring, -1, counts)
    plane[row]["sampled_gpu_s"] += seconds
    plane[row]["gpu_ms"] += gained
    return seconds > 0 or gained > 0


@helper
def _merge_gpu(
    slot: int, v: int, lo_s: int, hi_s: int, row: int, store: CoverageStore, samples: Samples
) -> bool:
    """Merge one GPU's sample into one minute; return whether the row changed."""
    newest_s = store.slots[slot]["newest_s"]
    counts_at = store.rows[row]["counts_at"]
    permille = _permille(samples.util, v)
    seconds, gained = _merge(slot, lo_s, hi_s, newest_s, permille, store.ring, counts_at, store.counts)
    store.rows[row]["sampled_gpu_s"] += seconds
    store.rows[row]["productive_gpu_ms"] += gained
    changed = seconds > 0 or gained > 0
    permille = _permille(samples.sm, v)
    if _merge_plane(slot, lo_s, hi_s, newest_s, permille, store.sm_ring, store.sm_rows, row, store.counts):
        changed = True
    permille = _permille(samples.tensor, v)
    if _merge_plane(
        slot, lo_s, hi_s, newest_s, permille, store.tensor_ring, store.tensor_rows, row, store.counts
    ):
        changed = True
    memory = _raise_to(samples.memory, v, store.rows[row]["memory_used_mib_max"])
    power = _raise_to(samples.power, v, store.rows[row]["power_w_max"])
    if memory > store.rows[row]["memory_used_mib_max"] or power > store.rows[row]["power_w_max"]:
        store.rows[row]["memory_used_mib_max"] = memory
        store.rows[row]["power_w_max"] = power
        changed = True
    return changed


@helper
def _fold_minute(i: int, minute: int, horizon_s: int, store: CoverageStore, samples: Samples) -> None:
    """Fold one minute of a record: the GPUs of a job on a node have one holder, GPUs without a job one each."""
    b = samples.begin_s[i]
    lo_s, hi_s = max(b, minute * 60), min(samples.end_s[i], minute * 60 + 60)
    g, g_stop = store.group_ptr[samples.group[i]], store.group_ptr[samples.group[i] + 1]
    holder, row = -1, -1
    changed = False
    for k in range(g, g_stop):
        slot = store.group_slot[k]
        if b >= store.slots[slot]["newest_s"] - horizon_s:
            if store.slots[slot]["holder"] != holder:
                if changed:
                    _mark_changed(row, store)
                holder = store.slots[slot]["holder"]
                row = open_row(holder, minute, store)
                changed = False
            v = samples.value_ptr[i] + k - g
            if _merge_gpu(slot, v, lo_s, hi_s, row, store, samples):
                changed = True
    if changed:
        _mark_changed(row, store)


@helper
def _fold_record(i: int, horizon_s: int, store: CoverageStore, samples: Samples) -> None:
    """Fold one record; a GPU's newest second moves only after all minutes, so that lateness is judged consistently."""
    b, e = samples.begin_s[i], samples.end_s[i]
    g, g_stop = store.group_ptr[samples.group[i]], store.group_ptr[samples.group[i] + 1]
    late = 0
    for k in range(g, g_stop):
        newest_s = store.slots[store.group_slot[k]]["newest_s"]
        if b < newest_s - horizon_s:
            late += 1
        elif e > b > newest_s + 1:
            clear_gap(store.group_slot[k], newest_s, b, store.ring)
            clear_gap(store.group_slot[k], newest_s, b, store.sm_ring)
            clear_gap(store.group_slot[k], newest_s, b, store.tensor_ring)
    samples.late[i] = late
    samples.covers[i] = 1 if e > b and late < g_stop - g else 0
    if samples.covers[i] == 0:
        return
    for minute in range(b // 60, (e - 1) // 60 + 1):
        _fold_minute(i, minute, horizon_s, store, samples)
    for k in range(g, g_stop):
        slot = store.group_slot[k]
        if b >= store.slots[slot]["newest_s"] - horizon_s:
            touch_slot(slot, b, store)
            store.slots[slot]["newest_s"] = max(store.slots[slot]["newest_s"], e - 1)


@kernel
def fold_samples(first: int, stop: int, horizon_s: int, store: CoverageStore, samples: Samples) -> None:
    """Fold the records [first, stop), in their order."""
    for i in range(first, stop):
        _fold_record(i, horizon_s, store, samples)
