"""One walk over a GPU message of JSON: where its text stands, its numbers, and whether it is plain.

Must not take a message that the general decoder would refuse for its numbers, nor give another number than it does.
"""

from __future__ import annotations

from streams.kernels._jit import helper
from streams.kernels.arrays import F64, I64, U8
from streams.kernels.gpu_keys import (
    ATTEMPT,
    GPU,
    GPUS,
    ID,
    INTERVAL,
    MEMORY,
    PLANES,
    REQUIRED,
    TIME,
    key_of,
)
from streams.kernels.json_number import scan_integer, scan_number
from streams.kernels.json_scan import (
    CLOSE_LIST,
    CLOSE_OBJECT,
    COLON,
    COMMA,
    OPEN_LIST,
    OPEN_OBJECT,
    QUOTE,
    after_space,
    byte_at,
    is_null,
    string_end,
)

# Limits of the wire type; a test compares them.
MIN_TIME_MS = 946_684_800_000
MAX_SAMPLE_MS = 3_600_000
MAX_BYTES = 2**20
MAX_GPUS = 1_024
_MAX_RATIO = 1.0
_MAX_LEVEL = 2.0**53

# Positions in `found`, what a walk learns of its record; the spans of the skeleton stand from SPANS on.
KEYS = 0  # which keys it has, as bits
NULLS = 1  # which of them are null
TIME_MS = 2
INTERVAL_MS = 3
ID_AT = 4
ID_SIZE = 5
COUNT = 6  # values of each plane, -1: not known yet
GPU_COUNT = 7
SPAN_COUNT = 8
SPAN_AT = 9  # where the current one begins
SPANS = 10
# Between them are an id, a time, an interval and the planes.
FOUND_SIZE = SPANS + 2 * (3 + PLANES + 1)


@helper
def _close_span(found: I64, stop: int, next_at: int) -> None:
    """The skeleton goes on to `stop`, and then from `next_at` on."""
    at = SPANS + 2 * found[SPAN_COUNT]
    found[at] = found[SPAN_AT]
    found[at + 1] = stop - found[SPAN_AT]
    found[SPAN_COUNT] += 1
    found[SPAN_AT] = next_at


@helper
def _read_integer(key: int, data: U8, at: int, stop: int, found: I64) -> int:
    """`time_ms` or `interval_ms`; the place after it, -1 if it is not plain."""
    value, end = scan_integer(data, at, stop)
    if end >= 0:
        found[TIME_MS if key == TIME else INTERVAL_MS] = value
        _close_span(found, at, end)
    return end


@helper
def _read_plane(key: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> int:
    """An array of numbers or one; the place after it, -1 if it is not plain. From `to` on is room for MAX_GPUS."""
    most = _MAX_LEVEL if key >= MEMORY else _MAX_RATIO
    begin = at
    count = 0
    if byte_at(data, at, stop) != OPEN_LIST:
        value, at = scan_number(data, at, stop)
        if at < 0 or value > most:
            return -1
        values[to] = value
        count = 1
    else:
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
    _close_span(found, begin, at)
    return at


@helper
def _read_gpus(data: U8, at: int, stop: int, found: I64) -> int:
    """An array of strings, counted; the place after it."""
    if byte_at(data, at, stop) != OPEN_LIST:
        return -1
    at = after_space(data, at + 1, stop)
    count = 0
    while True:
        if byte_at(data, at, stop) != QUOTE:
            return -1
        at = string_end(data, at + 1, stop)
        if at < 0:
            return -1
        count += 1
        at += 1
        byte = byte_at(data, at, stop)
        if byte != COMMA and byte != CLOSE_LIST:
            at = after_space(data, at, stop)
            byte = byte_at(data, at, stop)
        at += 1
        if byte == CLOSE_LIST:
            break
        if byte != COMMA:
            return -1
        at = after_space(data, at, stop)
    found[GPU_COUNT] = count
    return at


@helper
def _read_text(key: int, data: U8, at: int, stop: int, found: I64) -> int:
    """A string; the place after it."""
    if byte_at(data, at, stop) != QUOTE:
        return -1
    begin = at + 1
    end = string_end(data, begin, stop)
    if end < 0:
        return -1
    if key == ID:
        found[ID_AT] = begin
        found[ID_SIZE] = end - begin
        _close_span(found, begin, end)
    return end + 1


@helper
def _read_value(key: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> int:
    """The value of a key; the place after it, -1 if it is not plain."""
    if is_null(data, at, stop):
        found[NULLS] |= 1 << key
        return at + 4
    if key < PLANES:
        return _read_plane(key, data, at, stop, values, to + key * (values.size // PLANES), found)
    if key in (TIME, INTERVAL):
        return _read_integer(key, data, at, stop, found)
    if key == GPUS:
        return _read_gpus(data, at, stop, found)
    if key == ATTEMPT:
        _, end = scan_integer(data, at, stop)
        return end
    return _read_text(key, data, at, stop, found)


@helper
def walk(data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> bool:
    """Read the object in [at, stop); whether it is plain."""
    at = after_space(data, at, stop)
    if byte_at(data, at, stop) != OPEN_OBJECT:
        return False
    found[:SPANS] = 0
    found[COUNT] = -1
    found[SPAN_AT] = at
    while True:
        at = after_space(data, at + 1, stop)
        if byte_at(data, at, stop) != QUOTE:
            return False
        end = string_end(data, at + 1, stop)
        if end < 0:
            return False
        key = key_of(data, at + 1, end - at - 1)
        if key < 0 or (found[KEYS] >> key) & 1 != 0:
            return False
        found[KEYS] |= 1 << key
        at = after_space(data, end + 1, stop)
        if byte_at(data, at, stop) != COLON:
            return False
        at = _read_value(key, data, after_space(data, at + 1, stop), stop, values, to, found)
        if at < 0:
            return False
        at = after_space(data, at, stop)
        byte = byte_at(data, at, stop)
        if byte == CLOSE_OBJECT:
            break
        if byte != COMMA:
            return False
    _close_span(found, at + 1, at + 1)
    return after_space(data, at + 1, stop) == stop


@helper
def is_valid(newest_allowed_ms: int, found: I64) -> bool:
    """Whether the numbers and keys are as they must be; the text is judged with the skeleton."""
    has = found[KEYS] & ~found[NULLS]
    if has & REQUIRED != REQUIRED:
        return False
    count = found[GPU_COUNT]
    if (has >> GPUS) & 1 == 0:
        count = (has >> GPU) & 1
    if count != found[COUNT]:
        return False
    if found[TIME_MS] < MIN_TIME_MS or found[TIME_MS] > newest_allowed_ms:
        return False
    return bool(1 <= found[INTERVAL_MS] <= MAX_SAMPLE_MS)
