"""Encodes and decodes the rows of a holder: column by column, as differences from minute to minute.

A segment: its size in bytes and number of rows (uint32), its first and last minute (int32), its optional parts (uint8);
then the columns, each a byte (0: all values equal the first), the first value, and, unless all are equal, the steps to
the others. A row with counts adds the GPUs of its seconds: the number of runs, and of each its value and its length.
"""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import I64, U8
from streams.engine.kernels.coverage import COUNT_MAX, open_row
from streams.engine.kernels.numbers import read_number, read_word, write_number, write_word
from streams.engine.kernels.store import ROWS, CoverageStore

HEAD_BYTES = 17
# Upper bound of a segment's size: its header and columns, and each of its rows (ten bytes a number, four a run).
SEGMENT_BYTES_MOST = 128
ROW_BYTES_MOST = 90 + 1 + 60 * 4

# Parts of a segment.
HAS_SM = 1
HAS_TENSOR = 2
HAS_COUNTS = 4

_COLUMNS = 9
_INT64_MAX = 2**63 - 1


@helper
def _is_kept(column: int, parts: int) -> bool:
    """Whether a segment with these parts has the column."""
    if column >= 7:
        return parts & HAS_TENSOR != 0
    return column < 5 or parts & HAS_SM != 0


@helper
def _value(column: int, row: int, store: CoverageStore) -> int:
    """The row's value in a column."""
    if column == 0:
        return int(np.int64(store.rows[row]["minute"]))
    if column == 1:
        return int(np.int64(store.rows[row]["sampled_gpu_s"]))
    if column == 2:
        return int(np.int64(store.rows[row]["productive_gpu_ms"]))
    if column == 3:
        return int(np.int64(store.rows[row]["memory_used_mib_max"]))
    if column == 4:
        return int(np.int64(store.rows[row]["power_w_max"]))
    if column == 5:
        return int(np.int64(store.sm_rows[row]["gpu_ms"]))
    if column == 6:
        return int(np.int64(store.sm_rows[row]["sampled_gpu_s"]))
    if column == 7:
        return int(np.int64(store.tensor_rows[row]["gpu_ms"]))
    return int(np.int64(store.tensor_rows[row]["sampled_gpu_s"]))


@helper
def _set_value(column: int, row: int, value: int, store: CoverageStore) -> None:
    if column == 1:
        store.rows[row]["sampled_gpu_s"] = value
    elif column == 2:
        store.rows[row]["productive_gpu_ms"] = value
    elif column == 3:
        store.rows[row]["memory_used_mib_max"] = value
    elif column == 4:
        store.rows[row]["power_w_max"] = value
    elif column == 5:
        store.sm_rows[row]["gpu_ms"] = value
    elif column == 6:
        store.sm_rows[row]["sampled_gpu_s"] = value
    elif column == 7:
        store.tensor_rows[row]["gpu_ms"] = value
    elif column == 8:
        store.tensor_rows[row]["sampled_gpu_s"] = value


@helper
def _pack_column(
    column: int, rows: I64, begin: int, stop: int, store: CoverageStore, out: U8, at: int
) -> int:
    """Encode one column of the rows [begin, stop); a minute is stored as its distance from the minute after the last one."""
    each = 1 if column == 0 else 0
    first = _value(column, rows[begin], store)
    steady = True
    for k in range(begin + 1, stop):
        if _value(column, rows[k], store) != first + each * (k - begin):
            steady = False
            break
    out[at] = 0 if steady else 1
    at = write_number(first, out, at + 1)
    if not steady:
        last = first
        for k in range(begin + 1, stop):
            value = _value(column, rows[k], store)
            at = write_number(value - last - each, out, at)
            last = value
    return at


@helper
def _pack_counts(line: int, store: CoverageStore, out: U8, at: int) -> int:
    """Encode the runs of equal seconds of a line; none for a row without a line."""
    runs_at = at
    out[at] = 0
    at += 1
    if line < 0:
        return at
    runs = 0
    second = 0
    while second < 60:
        value = int(np.int64(store.counts[line, second]))
        begin = second
        while second < 60 and np.int64(store.counts[line, second]) == value:
            second += 1
        at = write_number(value, out, at)
        out[at] = second - begin
        at += 1
        runs += 1
    out[runs_at] = runs
    return at


@kernel
def pack_rows(rows: I64, ptr: I64, store: CoverageStore, out: U8, out_ptr: I64) -> None:
    """Encode a segment of each [ptr[i], ptr[i + 1]): at least one row of one holder, with ascending minutes."""
    at = 0
    for i in range(ptr.size - 1):
        out_ptr[i] = at
        begin, stop = ptr[i], ptr[i + 1]
        start = at
        parts = 0
        if store.sm_rows.shape[0] > 0:
            parts |= HAS_SM
        if store.tensor_rows.shape[0] > 0:
            parts |= HAS_TENSOR
        if store.holders[store.rows[rows[begin]]["holder"]]["counting"] != 0:
            parts |= HAS_COUNTS
        at += HEAD_BYTES
        for column in range(_COLUMNS):
            if _is_kept(column, parts):
                at = _pack_column(column, rows, begin, stop, store, out, at)
        if parts & HAS_COUNTS != 0:
            for k in range(begin, stop):
                at = _pack_counts(int(np.int64(store.rows[rows[k]]["counts_at"])), store, out, at)
        write_word(at - start, out, start)
        write_word(stop - begin, out, start + 4)
        write_word(_value(0, rows[begin], store), out, start + 8)
        write_word(_value(0, rows[stop - 1], store), out, start + 12)
        out[start + 16] = parts
    out_ptr[ptr.size - 1] = at


@helper
def _unpack_counts(row: int, data: U8, at: int, stop: int, store: CoverageStore) -> int:
    """Decode the runs of a row into its line, if it has one; return where they end."""
    if at >= stop:
        return stop + 1
    runs = int(data[at])
    at += 1
    line = np.int64(-1)
    if row >= 0:
        line = np.int64(store.rows[row]["counts_at"])
    second = 0
    for _ in range(runs):
        value, at = read_number(data, at, stop)
        if at >= stop or value < 0 or value > COUNT_MAX:
            return stop + 1
        length = int(data[at])
        at += 1
        if second + length > 60:
            return stop + 1
        if line >= 0:
            for k in range(second, second + length):
                store.counts[line, k] = value
        second += length
    return at


@helper
def _stepped(value: int, data: U8, at: int, stop: int) -> tuple[int, int]:
    """The value plus the step at `at`, and where that ends: past `stop` if the sum is invalid."""
    step, end = read_number(data, at, stop)
    if (step > 0 and value > _INT64_MAX - step) or (step < 0 and value < -_INT64_MAX - step):
        return value, stop + 1
    return value + step, end


@helper
def _unpack_column(
    column: int, count: int, data: U8, at: int, stop: int, holder: int, store: CoverageStore, rows: I64
) -> int:
    """Decode one column of `count` rows, which the first column creates; return where it ends."""
    if at >= stop:
        return stop + 1
    steady = data[at] == 0
    value, at = read_number(data, at + 1, stop)
    for k in range(count):
        if k > 0:
            value += 1 if column == 0 else 0
            if not steady:
                value, at = _stepped(value, data, at, stop)
        if at > stop:
            return at
        if column == 0:
            if value < -(2**31) or value >= 2**31:
                return stop + 1
            known = store.used[ROWS]
            row = open_row(holder, value, store)
            # An existing row is newer.
            rows[k] = row if store.used[ROWS] > known else -1
        elif rows[k] >= 0:
            _set_value(column, rows[k], value, store)
    return at


@helper
def _unpack(data: U8, begin: int, stop: int, holder: int, store: CoverageStore, rows: I64) -> bool:
    """Decode one segment; return whether it ends where its header says."""
    count = read_word(data, begin + 4)
    parts = int(data[begin + 16])
    at = begin + HEAD_BYTES
    for column in range(_COLUMNS):
        if _is_kept(column, parts) and at <= stop:
            at = _unpack_column(column, count, data, at, stop, holder, store, rows)
    if parts & HAS_COUNTS != 0:
        for k in range(count):
            if at <= stop:
                at = _unpack_counts(rows[k], data, at, stop, store)
    return at == stop


@kernel
def unpack_rows(data: U8, ptr: I64, holders: I64, store: CoverageStore, rows: I64) -> int:
    """Decode the rows of segments, one of each holder; return the first broken one, -1: none.

    `rows`, as long as the longest segment, is a scratch array; the store has room for all rows, and the planes.
    """
    for i in range(holders.size):
        if not _unpack(data, ptr[i], ptr[i + 1], holders[i], store, rows):
            return i
    return -1
