"""Summarises many records of one owner: the time span that they cover, and the newest of each minute."""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import I32, I64, U8, Records

#: By owner, reused between calls: outside a call `newest` is _ABSENT.
SPAN = np.dtype(
    [
        ("first_ms", np.int64),
        ("last_ms", np.int64),
        ("newest", np.int64),
        ("lo_minute", np.int64),
        ("hi_minute", np.int64),
    ],
    align=True,
)
ABSENT = -2
_NONE = -1


@helper
def _is_newer(i: int, j: int, time_ms: I64, id_at: I64, id_size: I32, data: U8) -> bool:
    """Compare by time, then by id as strings (ids are ASCII here)."""
    if time_ms[i] != time_ms[j]:
        return bool(time_ms[i] > time_ms[j])
    shared = min(id_size[i], id_size[j])
    for k in range(shared):
        one, other = data[id_at[i] + k], data[id_at[j] + k]
        if one != other:
            return bool(one > other)
    return bool(id_size[i] > id_size[j])


@kernel
def sum_up(
    wanted: U8,
    shape: I32,
    owner: I32,
    time_ms: I64,
    interval_ms: I64,
    id_at: I64,
    id_size: I32,
    data: U8,
    spans: Records,
    seen: I32,
    first_ms: I64,
    last_ms: I64,
    newest: I64,
) -> tuple[int, int]:
    """Find, of the wanted records ([n] != 0), the owners with their times, and the newest record of each run of minutes.

    `owner` is by shape. Out: `seen`, `first_ms`, `last_ms` [owners in the order of appearance]; `newest` [records]: of
    records of an owner that cover the same minutes consecutively, the newest; of two shapes at one instant both, as
    text decides between them. Records that cover no second are ignored. Returns the number of either.
    """
    owners = 0
    found = 0
    for i in range(len(shape)):
        if wanted[i] == 0:
            continue
        s = owner[shape[i]]
        if spans[s]["newest"] == ABSENT:
            seen[owners] = s
            owners += 1
            spans[s]["newest"] = _NONE
            spans[s]["first_ms"] = time_ms[i]
            spans[s]["last_ms"] = time_ms[i]
        else:
            spans[s]["first_ms"] = min(spans[s]["first_ms"], time_ms[i])
            spans[s]["last_ms"] = max(spans[s]["last_ms"], time_ms[i])
        begin_s, end_s = (time_ms[i] - interval_ms[i]) // 1000, time_ms[i] // 1000
        if end_s <= begin_s:
            continue
        lo, hi = begin_s // 60, (end_s - 1) // 60
        best = spans[s]["newest"]
        if best != _NONE and spans[s]["lo_minute"] == lo and spans[s]["hi_minute"] == hi:
            if shape[i] != shape[best] and time_ms[i] == time_ms[best]:
                newest[found] = best
                found += 1
                spans[s]["newest"] = i
            elif _is_newer(i, best, time_ms, id_at, id_size, data):
                spans[s]["newest"] = i
            continue
        if best != _NONE:
            newest[found] = best
            found += 1
        spans[s]["newest"] = i
        spans[s]["lo_minute"] = lo
        spans[s]["hi_minute"] = hi
    for k in range(owners):
        s = seen[k]
        first_ms[k] = spans[s]["first_ms"]
        last_ms[k] = spans[s]["last_ms"]
        if spans[s]["newest"] != _NONE:
            newest[found] = spans[s]["newest"]
            found += 1
        spans[s]["newest"] = ABSENT
    return owners, found
