"""Walks once over a GPU message in JSON and separates its constant text from its variable parts."""

from __future__ import annotations

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import F64, I64, U8
from streams.engine.kernels.gpu_keys import ATTEMPT, GPU, GPUS, ID, REQUIRED, key_of
from streams.engine.kernels.gpu_slots import (
    COUNT,
    END,
    GPU_COUNT,
    KEYS,
    NULLS,
    SPAN_AT,
    SPAN_COUNT,
    SPANS,
    read_slot,
)
from streams.engine.kernels.json_number import scan_integer
from streams.engine.kernels.json_scan import (
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


@helper
def _close_span(key: int, found: I64, stop: int, next_at: int) -> None:
    """Close the skeleton span at `stop`, where the slot of the key begins; the next span begins at `next_at`."""
    at = SPANS + 3 * found[SPAN_COUNT]
    found[at] = found[SPAN_AT]
    found[at + 1] = stop - found[SPAN_AT]
    found[at + 2] = key
    found[SPAN_COUNT] += 1
    found[SPAN_AT] = next_at


@helper
def _read_gpus(data: U8, at: int, stop: int, found: I64) -> int:
    """Read and count an array of strings; return the next position."""
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
def _read_value(key: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> int:
    """Read the value of a key; return the next position, -1 if it is not plain."""
    if is_null(data, at, stop):
        found[NULLS] |= 1 << key
        return at + 4
    if key < ID:  # planes, times
        end = read_slot(key, data, at, stop, values, to, found)
        _close_span(key, found, at, end)
        return end
    if key == GPUS:
        return _read_gpus(data, at, stop, found)
    if key == ATTEMPT:
        _, end = scan_integer(data, at, stop)
        return end
    if byte_at(data, at, stop) != QUOTE:
        return -1
    at += 1
    if key == ID:
        end = read_slot(key, data, at, stop, values, to, found)
        _close_span(key, found, at, end)
    else:
        end = string_end(data, at, stop)
    return end + 1 if end >= 0 else -1


@helper
def walk(data: U8, at: int, stop: int, values: F64, to: int, found: I64) -> bool:
    """Read the object in [at, stop); return whether it is plain."""
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
    _close_span(END, found, at + 1, at + 1)
    return after_space(data, at + 1, stop) == stop


@helper
def is_complete(found: I64) -> bool:
    """Whether all required keys are present, with as many values as GPUs."""
    has = found[KEYS] & ~found[NULLS]
    if has & REQUIRED != REQUIRED:
        return False
    if (has >> GPUS) & 1 == 0:
        found[GPU_COUNT] = (has >> GPU) & 1
    return bool(found[GPU_COUNT] == found[COUNT])
