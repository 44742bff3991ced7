"""Encodes holders, rings and rows as bytes and decodes them, for the archive and for snapshots.

No number of this process may occur in a blob: it identifies holders by name and GPUs by their index in their
holder.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.coverage.blob_form import FORMAT, ROW, SLOT, SUMS, Blob, HolderPart
from streams.engine.coverage.names import Holder, HolderNames
from streams.engine.coverage.packed_rows import PackedRows
from streams.engine.kernels.arrays import I32, I64, U16, Records
from streams.engine.kernels.rings import (
    ensure_rows,
    free_rows,
    read_cells,
    seal_cells,
    set_newest,
    write_cells,
)
from streams.engine.kernels.store import BEGINNING_S, PLANE, UNEXPORTED_ROWS, UNEXPORTED_SLOTS

# A second that no sample can add to.
_SEALED = 1001


def pack(
    arrays: CoverageArrays,
    names: HolderNames,
    forget: list[str],
    slots: I32,
    from_s: I64,
    rows: I64,
    whole: Iterable[Holder] | None = None,
) -> bytes:
    """Encode these slots, each from a second on, and these rows.

    The `whole` holders (None: all) must be complete; of another holder only the GPUs since its last export are named.
    """
    store = arrays.store
    entire = None if whole is None else {holder.number for holder in whole}
    is_named = np.zeros(arrays.holders, np.bool_)
    is_named[store.slots["holder"][slots]] = is_named[store.rows["holder"][rows]] = True
    is_named[list(entire or ())] = True
    numbers = np.flatnonzero(is_named)
    place = np.cumsum(is_named, dtype=np.int32) - np.int32(1)  # index among the named holders
    slot_part = np.empty(len(slots), SLOT)
    newest_s = store.slots["newest_s"][slots]
    # A ring covers its width only; a slot without a second has no cell.
    from_s = np.where(
        newest_s == BEGINNING_S, BEGINNING_S + 1, np.maximum(from_s, newest_s - store.ring.shape[1] + 1)
    )
    slot_part["holder"] = place[store.slots["holder"][slots]]
    slot_part["ordinal"] = store.slots["ordinal"][slots]
    slot_part["newest_s"], slot_part["from_s"] = newest_s, from_s
    row_part = np.empty(len(rows), ROW)
    counted = store.rows["counts_at"][rows] >= 0
    row_part["holder"] = place[store.rows["holder"][rows]]
    row_part["minute"], row_part["counted"] = store.rows["minute"][rows], counted
    for name in SUMS:
        row_part[name] = store.rows[name][rows]

    holders = names.by_numbers(numbers.tolist())
    parts = _holder_parts(holders, store.holders[numbers], entire)

    def cells(ring: U16, used: bool) -> bytes:
        out = np.empty(int((newest_s - from_s + 1).sum()) if used else 0, np.uint16)
        if used:
            read_cells(slots, from_s, newest_s, ring, out)
        return out.tobytes()

    return msgspec.msgpack.encode(
        Blob(
            format=FORMAT,
            width_s=store.ring.shape[1],
            forget=forget,
            holders=parts,
            slots=slot_part.tobytes(),
            cells=cells(store.ring, True),
            sm_cells=cells(store.sm_ring, arrays.has_sm),
            tensor_cells=cells(store.tensor_ring, arrays.has_tensor),
            rows=row_part.tobytes(),
            sm_rows=store.sm_rows[rows].tobytes() if arrays.has_sm else b"",
            tensor_rows=store.tensor_rows[rows].tobytes() if arrays.has_tensor else b"",
            counts=store.counts[store.rows["counts_at"][rows][counted]].tobytes(),
            worked=arrays.worked_s[slots].tobytes(),
        )
    )


def changed(
    arrays: CoverageArrays, names: HolderNames, whole: Iterable[Holder]
) -> tuple[list[Holder], I32, I64, I64]:
    """What the next increment includes.

    Holders that are new or requested, which it includes whole; all its slots, and from which second on; the rows of the
    other holders.
    """
    store = arrays.store
    slots = store.unexported_slots[: store.used[UNEXPORTED_SLOTS]]
    rows = store.unexported[: store.used[UNEXPORTED_ROWS]].astype(np.int64)
    is_mentioned = np.zeros(arrays.holders + 1, np.bool_)  # the last entry stands for no holder
    is_mentioned[store.slots["holder"][slots]] = is_mentioned[store.rows["holder"][rows]] = True
    known = names.by_numbers(np.flatnonzero(is_mentioned[:-1]).tolist())
    asked = [holder for holder in whole if names.is_known(holder)]
    entire = {h.number: h for h in (*asked, *(h for h in known if h.exported_gpus < 0))}
    is_entire = np.zeros(max(arrays.holders, 1), np.bool_)
    is_entire[list(entire)] = True
    slots, rows = (
        part[(owner[part] >= 0) & ~is_entire[owner[part]]]
        for part, owner in ((slots, store.slots["holder"]), (rows, store.rows["holder"]))
    )
    theirs = all_slots(entire.values())
    from_s = np.concatenate([store.slots["touched_s"][slots], np.full(len(theirs), BEGINNING_S)])
    return list(entire.values()), np.concatenate([slots, theirs]), from_s, rows


def _holder_parts(
    holders: Sequence[Holder], values: Records, entire: Container[int] | None
) -> list[HolderPart]:
    """The blob parts of the holders; they count as exported, unless all of each was requested (None)."""
    counting, packed_to = (values["counting"] != 0).tolist(), values["packed_to"].tolist()
    parts: list[HolderPart] = []
    for holder, counts, to_minute in zip(holders, counting, packed_to, strict=True):
        named, size = holder.exported_gpus, len(holder.gpus)
        if entire is not None and named == size and holder.number not in entire:
            # The usual case: unchanged since its last part, which is reused.
            part = holder.part
            if part is None or part.counting != counts or part.first_gpu != size:
                part = holder.part = HolderPart(
                    holder.job_id, holder.attempt, holder.node, counts, size, [], False
                )
            parts.append(part)
            continue
        if entire is None or holder.number in entire:
            named = -1
        gpus = list(holder.gpus)[max(named, 0) :]
        packed = (holder.packed, to_minute) if named < 0 and holder.packed else ()
        parts.append(
            HolderPart(
                holder.job_id, holder.attempt, holder.node, counts, max(named, 0), gpus, named < 0, *packed
            )
        )
        if entire is not None:
            holder.exported_gpus = size
    return parts


def unpack(
    blob: Blob, arrays: CoverageArrays, names: HolderNames, old: PackedRows, *, touch: bool
) -> list[HolderPart]:
    """Add slots and rows of a blob; `touch`: the next increment must include them.

    Returns:
        The holders that were skipped, as their base is unknown: a later blob includes them whole.

    Raises:
        ValueError: An increment is missing.
    """
    found = _own_holders(blob, arrays, names, touch)
    _unpack_slots(blob, found, arrays, touch)
    packed = {
        holder.number: (part.packed, part.packed_to)
        for part, holder in zip(blob.holders, found, strict=True)
        if part.packed and holder is not None
    }
    if packed:
        old.replace(packed)
    _unpack_rows(blob, found, arrays, old, touch)
    return [part for part, holder in zip(blob.holders, found, strict=True) if holder is None]


def _own_holders(blob: Blob, arrays: CoverageArrays, names: HolderNames, touch: bool) -> list[Holder | None]:
    """The holders of a blob, created if needed; None for one whose base is unknown."""
    counting = arrays.store.holders["counting"]
    was_counting = counting.tolist()
    found: list[Holder | None] = []
    for part in blob.holders:
        known = names.find(part.job_id, part.attempt, part.node)
        if (
            known is None
            or part.gpus
            or part.first_gpu > len(known.gpus)
            or (not part.counting and was_counting[known.number])
        ):
            known = _own_holder(part, arrays, names, counting)
            if known is not None and not touch:
                known.exported_gpus = len(known.gpus)
        # Otherwise, as usual, nothing is new, and it was exported before.
        found.append(known)
    return found


def _own_holder(
    part: HolderPart, arrays: CoverageArrays, names: HolderNames, was_counting: I32
) -> Holder | None:
    known = names.find(part.job_id, part.attempt, part.node)
    if known is None and not part.whole:
        return None
    if known is not None and len(known.gpus) < part.first_gpu:
        raise ValueError(f"{part.job_id} on {part.node}: an increment before this one is missing")
    holder = names.holder(part.job_id, part.attempt, part.node) if known is None else known
    if known is None and part.first_gpu:
        raise ValueError(f"{part.job_id} on {part.node}: an increment before this one is missing")
    for gpu in part.gpus:
        names.slot(holder, gpu)
    if not part.counting and (known is None or was_counting[holder.number]):
        names.drop_counts(part.job_id, part.attempt)
        free_rows(holder.number, True, arrays.store)
    return holder


def _unpack_slots(blob: Blob, holders: list[Holder | None], arrays: CoverageArrays, touch: bool) -> None:
    part = _array(blob.slots, SLOT)
    cells = _array(blob.cells, np.uint16)
    sm, tensor = _array(blob.sm_cells, np.uint16), _array(blob.tensor_cells, np.uint16)
    arrays.use_planes(len(sm) > 0 or bool(blob.sm_rows), len(tensor) > 0 or bool(blob.tensor_rows))
    store = arrays.store
    # Positions of the holders' GPUs in one array of all their slots; -1 for a skipped holder.
    begins = np.full(len(holders), -1, np.int64)
    known = [(place, holder) for place, holder in enumerate(holders) if holder is not None]
    begins[[place for place, _ in known]] = np.cumsum([0, *(len(holder.gpus) for _, holder in known)])[:-1]
    every = all_slots(holder for _, holder in known)
    begin = begins[part["holder"]]
    cells, sm, tensor = (_of_known(values, part, begin >= 0) for values in (cells, sm, tensor))
    # Where a former version wrote it, nothing is known from before the newest sample.
    worked = _array(blob.worked, np.int64) if blob.worked else part["newest_s"].astype(np.int64)
    worked = worked[begin >= 0]
    part, begin = part[begin >= 0], begin[begin >= 0]
    slots = every[begin + part["ordinal"]]
    arrays.worked_s[slots] = np.maximum(arrays.worked_s[slots], worked)
    from_s, newest_s = part["from_s"].astype(np.int64), part["newest_s"].astype(np.int64)
    fresh = store.slots["newest_s"][slots] == BEGINNING_S
    write_cells(slots, from_s, newest_s, cells, store.slots, store.ring)
    if arrays.has_sm:
        write_cells(slots, from_s, newest_s, sm, store.slots, store.sm_ring)
    if arrays.has_tensor:
        write_cells(slots, from_s, newest_s, tensor, store.slots, store.tensor_ring)
    if blob.width_s < store.ring.shape[1]:
        # The horizon has grown: seconds that the narrower ring has lost must not be counted twice.
        sealed = fresh & (newest_s != BEGINNING_S)
        seal_cells(slots[sealed], newest_s[sealed], blob.width_s, store.ring, _SEALED)
        if arrays.has_sm:
            seal_cells(slots[sealed], newest_s[sealed], blob.width_s, store.sm_ring, _SEALED)
        if arrays.has_tensor:
            seal_cells(slots[sealed], newest_s[sealed], blob.width_s, store.tensor_ring, _SEALED)
    set_newest(slots, from_s, newest_s, touch, store)


def _of_known(cells: U16, part: NDArray[Any], known: NDArray[np.bool_]) -> U16:
    """The cells of the known slots among all cells."""
    if known.all() or not len(cells):
        return cells
    found: U16 = cells[np.repeat(known, (part["newest_s"] - part["from_s"] + 1))]
    return found


def _unpack_rows(
    blob: Blob, holders: list[Holder | None], arrays: CoverageArrays, old: PackedRows, touch: bool
) -> None:
    part = _array(blob.rows, ROW)
    numbers = np.array([-1 if holder is None else holder.number for holder in holders], np.int32)
    mine = numbers[part["holder"]] >= 0 if len(part) else np.zeros(0, np.bool_)
    counts = _array(blob.counts, np.uint16).reshape(-1, 60)[mine[part["counted"] != 0]]
    part = part[mine]
    old.unpack_pairs(numbers[part["holder"]], part["minute"])
    arrays.reserve_rows(len(part))
    rows = np.empty(len(part), np.int64)
    store = arrays.store
    ensure_rows(numbers[part["holder"]], part["minute"].astype(np.int32), touch, store, rows)
    for name in SUMS:
        store.rows[name][rows] = part[name]
    if blob.sm_rows:
        store.sm_rows[rows] = _array(blob.sm_rows, PLANE)[mine]
    if blob.tensor_rows:
        store.tensor_rows[rows] = _array(blob.tensor_rows, PLANE)[mine]
    counted = np.flatnonzero(part["counted"])
    lines = store.rows["counts_at"][rows[counted]]
    store.counts[lines[lines >= 0]] = counts[lines >= 0]


def _array(data: bytes, dtype: Any) -> NDArray[Any]:
    """A writable copy, as kernels require."""
    return np.frombuffer(data, dtype).copy()


def all_slots(holders: Iterable[Holder]) -> I32:
    """The slots of these holders ([n] int32)."""
    return np.fromiter(chain.from_iterable(holder.gpus.values() for holder in holders), np.int32)
