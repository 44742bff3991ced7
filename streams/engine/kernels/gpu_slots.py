"""Parses the variable parts of a GPU message: time, interval, id and the arrays of numbers."""

from __future__ import annotations

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import F64, I64, U8
from streams.engine.kernels.gpu_keys import ID, MEMORY, PLANES, TIME
from streams.engine.kernels.json_number import scan_integer, scan_number
from streams.engine.kernels.json_scan import CLOSE_LIST, COMMA, OPEN_LIST, after_space, byte_at, string_end

# Limits of the wire type; a test compares them.
MIN_TIME_MS = 946_684_800_000
MAX_SAMPLE_MS = 3_600_000
MAX_BYTES = 2**20
MAX_GPUS = 1_024
MAX_NAME_BYTES = 256
_MAX_RATIO = 1.0
_MAX_LEVEL = 2.0**53

#: An id, a time, an interval and the planes.
MOST_SLOTS = 3 + PLANES
#: In place of a key: no slot follows this span.
END = 31

# Positions in `found`, the result for a record. The spans of its skeleton (place, size, key of the slot behind it)
# begin at SPANS.
KEYS = 0  # its keys, as bits
NULLS = 1  # which of them are null
TIME_MS = 2
INTERVAL_MS = 3
ID_AT = 4
ID_SIZE = 5
COUNT = 6  # values of each plane, -1: not known yet
GPU_COUNT = 7
SPAN_COUNT = 8
SPAN_AT = 9  # where the current span begins
SPANS = 10
FOUND_SIZE = SPANS + 3 * (MOST_SLOTS + 1)


@helper
def _read_plane(key: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> int:
    """Read an array of numbers or null; return the next position, -1 if it is not plain.

    `values` has room for MAX_GPUS at `to`.
    """
    most = _MAX_LEVEL if key >= MEMORY else _MAX_RATIO
    count = 1
    if byte_at(data, at, stop) != OPEN_LIST:
        value, at = scan_number(data, at, stop)
        if at < 0 or value > most:
            return -1
        values[to] = value
    else:
        count = 0
        at = after_space(data, at + 1, stop)
        while True:
            value, at = scan_number(data, at, stop)
            if at < 0 or value > most or count == MAX_GPUS:
                return -1
            values[to + count] = value
            count += 1
            at = after_space(data, at, stop)
            byte = byte_at(data, at, stop)
            at += 1
            if byte == CLOSE_LIST:
                break
            if byte != COMMA:
                return -1
            at = after_space(data, at, stop)
    if found[COUNT] >= 0 and found[COUNT] != count:
        return -1
    found[COUNT] = count
    return at


@helper
def read_slot(key: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> int:
    """Read the value of a key (of an id: the text between its quotes); return the next position, -1 if it is not plain."""
    if key < PLANES:
        return _read_plane(key, data, at, stop, values, to + key * (values.size // PLANES), found)
    if key == ID:
        end = string_end(data, at, stop)
        found[ID_AT] = at
        found[ID_SIZE] = end - at
        # All other text belongs to the skeleton, which the general decoder checks.
        return end if end - at <= MAX_NAME_BYTES else -1
    value, end = scan_integer(data, at, stop)
    found[TIME_MS if key == TIME else INTERVAL_MS] = value
    return end


@helper
def is_timely(newest_allowed_ms: int, found: I64) -> bool:
    """Whether the instant and the interval are within their limits."""
    if found[TIME_MS] < MIN_TIME_MS or found[TIME_MS] > newest_allowed_ms:
        return False
    return bool(1 <= found[INTERVAL_MS] <= MAX_SAMPLE_MS)
