"""Copies rings and rows between coverage stores, and walks over the rows of a holder."""

from __future__ import annotations

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, U16, Records
from streams.engine.kernels.coverage import clear_gap, find_row, mark_unexported, open_row, touch_slot
from streams.engine.kernels.store import BEGINNING_S, ROWS, CoverageStore, Samples


@kernel
def read_cells(slots: I32, from_s: I64, newest_s: I64, ring: U16, out: U16) -> None:
    """Copy the cells of the seconds [from, newest] of each slot to `out`, slot after slot."""
    width = ring.shape[1]
    n = 0
    for i in range(slots.size):
        for second in range(from_s[i], newest_s[i] + 1):
            out[n] = ring[slots[i], second % width]
            n += 1


@kernel
def write_cells(slots: I32, from_s: I64, newest_s: I64, cells: U16, own: Records, ring: U16) -> None:
    """Copy cells back, for slots whose newest second is still the previous one: seconds in between are not covered."""
    width = ring.shape[1]
    n = 0
    for i in range(slots.size):
        clear_gap(slots[i], own[slots[i]]["newest_s"], from_s[i], ring)
        for second in range(from_s[i], newest_s[i] + 1):
            ring[slots[i], second % width] = cells[n] if cells.size > 0 else 0
            n += 1


@kernel
def set_newest(slots: I32, from_s: I64, newest_s: I64, touch: bool, store: CoverageStore) -> None:
    """Set the newest second of each slot, after its cells; `touch`: the next increment includes them."""
    for i in range(slots.size):
        if newest_s[i] != BEGINNING_S:
            store.slots[slots[i]]["newest_s"] = newest_s[i]
            if touch:
                touch_slot(slots[i], from_s[i], store)


@kernel
def ensure_rows(holder: I32, minute: I32, touch: bool, store: CoverageStore, out: I64) -> None:
    """Write the row of each (holder, minute) to `out`, created if needed."""
    for i in range(holder.size):
        out[i] = open_row(holder[i], minute[i], store)
        if touch:
            mark_unexported(out[i], store)


@kernel
def fill_cells(store: CoverageStore) -> None:
    """Enter all rows that have a holder into an empty index."""
    for row in range(store.used[ROWS]):
        if store.rows[row]["holder"] >= 0:
            at = find_row(store.rows[row]["holder"], store.rows[row]["minute"], store.cells, store.rows)
            store.cells[at] = row + 1


@kernel
def chain_rows(store: CoverageStore) -> None:
    """Link the rows of each holder again, in their order."""
    for row in range(store.used[ROWS]):
        holder = store.rows[row]["holder"]
        store.rows[row]["older"] = store.holders[holder]["newest_row"]
        store.holders[holder]["newest_row"] = row


@kernel
def rows_between(holders: I64, lo_minute: int, hi_minute: int, store: CoverageStore, out: I64) -> int:
    """Count the holders' rows of the minutes [lo, hi), and write those for which `out` has room."""
    found = 0
    for i in range(holders.size):
        row = int(store.holders[holders[i]]["newest_row"])
        while row >= 0:
            if lo_minute <= store.rows[row]["minute"] < hi_minute:
                if found < out.size:
                    out[found] = row
                found += 1
            row = int(store.rows[row]["older"])
    return found


@kernel
def rows_at(holders: I64, lo_minute: int, hi_minute: int, store: CoverageStore, out: I64) -> int:
    """Do the same by a lookup of each minute, for few minutes of holders with many rows."""
    found = 0
    for i in range(holders.size):
        for minute in range(lo_minute, hi_minute):
            at = find_row(holders[i], minute, store.cells, store.rows)
            if store.cells[at] != 0:
                if found < out.size:
                    out[found] = store.cells[at] - 1
                found += 1
    return found


@kernel
def rows_of_pairs(holders: I64, minutes: I64, store: CoverageStore, out: I64) -> None:
    """Write the row of each (holder, minute) to `out`, -1 where there is none."""
    for i in range(holders.size):
        at = find_row(holders[i], minutes[i], store.cells, store.rows)
        out[i] = int(store.cells[at]) - 1


@kernel
def seal_cells(slots: I32, newest_s: I64, known_width: int, ring: U16, value: int) -> None:
    """Fill the seconds of a wider ring that a narrower one has lost, so that no sample can add to them."""
    width = ring.shape[1]
    for i in range(slots.size):
        for second in range(newest_s[i] - width + 1, newest_s[i] - known_width + 1):
            ring[slots[i], second % width] = value


@kernel
def free_rows(holder: int, keep_rows: bool, store: CoverageStore) -> tuple[int, int]:
    """Free the counts, and unless `keep_rows` the rows, of a holder; return the number of both."""
    rows = 0
    counts = 0
    row = int(store.holders[holder]["newest_row"])
    while row >= 0:
        if store.rows[row]["counts_at"] >= 0:
            store.rows[row]["counts_at"] = -1
            counts += 1
        if not keep_rows:
            store.rows[row]["holder"] = -1
            rows += 1
        row = int(store.rows[row]["older"])
    store.holders[holder]["counting"] = 0
    if not keep_rows:
        store.holders[holder]["newest_row"] = -1
    return rows, counts


@kernel
def find_reaching(
    first: int,
    stop: int,
    horizon_s: int,
    store: CoverageStore,
    samples: Samples,
    holders: I64,
    lo: I64,
    hi: I64,
) -> int:
    """Find which of the records [first, stop) may change a packed row: holder, first and last minute; return how many.

    The outputs have room for each GPU of the records.

    Newest seconds only increase: a record that is late for all its GPUs before a batch is late in it.
    """
    found = 0
    for i in range(first, stop):
        b, e = samples.begin_s[i], samples.end_s[i]
        g, g_stop = store.group_ptr[samples.group[i]], store.group_ptr[samples.group[i] + 1]
        if g == g_stop or e <= b:
            continue
        last = -1  # GPUs of one holder are next to each other
        for k in range(g, g_stop):
            holder = store.slots[store.group_slot[k]]["holder"]
            if holder == last or b // 60 >= store.holders[holder]["packed_to"]:
                continue
            if b >= store.slots[store.group_slot[k]]["newest_s"] - horizon_s:
                holders[found] = last = holder
                lo[found] = b // 60
                hi[found] = (e - 1) // 60
                found += 1
    return found


@kernel
def drop_rows(holders: I64, store: CoverageStore) -> int:
    """Remove all rows of the holders; return how many."""
    dropped = 0
    for i in range(holders.size):
        row = int(store.holders[holders[i]]["newest_row"])
        while row >= 0:
            store.rows[row]["holder"] = -1
            dropped += 1
            row = int(store.rows[row]["older"])
        store.holders[holders[i]]["newest_row"] = -1
    return dropped
