"""Parses GPU messages from JSON bytes to columns: one pass over each, no objects, no copies of text."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I32, I64, U8
from streams.engine.kernels.gpu_keys import OPTIONAL_PLANES, PLANES, UTIL
from streams.engine.kernels.gpu_slots import (
    COUNT,
    ID_AT,
    ID_SIZE,
    INTERVAL_MS,
    MAX_BYTES,
    TIME_MS,
    is_timely,
)
from streams.engine.kernels.gpu_walk import is_complete, walk
from streams.engine.kernels.skeletons import ENTRIES, LAST, NO_ROOM, Table, find_or_add, read_as

#: A record that is left to the general decoder.
_ODD = -2


class Batch(NamedTuple):
    """The input: records as byte spans (size below 0: no value)."""

    data: U8
    value_at: I64
    value_size: I32
    newest_allowed_ms: I64


class GpuColumns(NamedTuple):
    """The output: [n] per record; the planes are consecutive in `values`, each with room for `values.size // PLANES`."""

    shape: I32
    time_ms: I64
    interval_ms: I64
    id_at: I64
    id_size: I32
    value_ptr: I64
    planes: U8  # which optional planes a record has, as bits of their codes
    values: F64
    found: I64


@helper
def _read(i: int, batch: Batch, out: GpuColumns, table: Table) -> int:
    """The number of the record's skeleton, _ODD or NO_ROOM; its slot values are in `found` and in the planes."""
    at, size = batch.value_at[i], batch.value_size[i]
    if size <= 0 or size > MAX_BYTES:
        return _ODD
    to = out.value_ptr[i]
    last = table.used[LAST]
    if table.used[ENTRIES] > 0:
        number = int(table.next[last])
        if read_as(number, batch.data, at, at + size, out.values, to, out.found, table):
            return number if is_timely(batch.newest_allowed_ms[i], out.found) else _ODD
    if not walk(batch.data, at, at + size, out.values, to, out.found) or not is_complete(out.found):
        return _ODD
    if not is_timely(batch.newest_allowed_ms[i], out.found):
        return _ODD
    number = find_or_add(batch.data, out.found, i, table)
    if number != NO_ROOM:
        table.next[last] = number
    return number


@helper
def _write_record(i: int, number: int, seen: int, out: GpuColumns, table: Table) -> None:
    """Write what was found of a record; its values are in the planes already.

    `seen`: the optional planes that earlier records have; other planes are filled up at their first value.
    """
    found = out.found
    out.shape[i] = number
    out.time_ms[i] = found[TIME_MS]
    out.interval_ms[i] = found[INTERVAL_MS]
    out.id_at[i] = found[ID_AT]
    out.id_size[i] = found[ID_SIZE]
    to = out.value_ptr[i]
    out.value_ptr[i + 1] = to + found[COUNT]
    has = table.has[number] & OPTIONAL_PLANES
    out.planes[i] = has
    room = out.values.size // PLANES
    for plane in range(UTIL + 1, PLANES):
        at = plane * room
        if (seen >> plane) & 1 == 0:
            if (has >> plane) & 1 != 0:
                out.values[at : at + to] = np.nan
        elif (has >> plane) & 1 == 0:
            out.values[at + to : at + to + found[COUNT]] = np.nan


@kernel
def parse_gpu(first: int, batch: Batch, out: GpuColumns, table: Table) -> int:
    """Read the records from `first` on; return the first that found no room in the table, or the number of records.

    New skeletons are added to the table, for the caller to check.
    """
    seen = 0
    for i in range(first):
        seen |= int(np.int64(out.planes[i]))
    for i in range(first, batch.value_size.size):
        out.shape[i] = -1
        out.planes[i] = 0
        out.value_ptr[i + 1] = out.value_ptr[i]
        number = _read(i, batch, out, table)
        if number == NO_ROOM:
            return i
        if number >= 0:
            table.used[LAST] = number
            if table.is_refused[number] == 0:
                _write_record(i, number, seen, out, table)
                seen |= int(np.int64(out.planes[i]))
    return int(batch.value_size.size)


@kernel
def drop_refused(out: GpuColumns, table: Table) -> None:
    """Remove records whose skeleton was refused after they were read, and close the gaps in the planes."""
    room = out.values.size // PLANES
    to = 0
    begin = out.value_ptr[0]
    for i in range(out.shape.size):
        stop = out.value_ptr[i + 1]
        if out.shape[i] >= 0 and table.is_refused[out.shape[i]] != 0:
            out.shape[i] = -1
            out.planes[i] = 0
        elif out.shape[i] >= 0:
            for k in range(begin, stop):
                for plane in range(PLANES):
                    out.values[plane * room + to] = out.values[plane * room + k]
                to += 1
        begin = stop
        out.value_ptr[i + 1] = to
