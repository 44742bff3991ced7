"""Scans JSON words and strings in bytes, in their plainest forms only.

A form that is not plain ends a scan with a negative number, and the general decoder reads the record. No sum
or product may overflow int64 for any input: overflow is undefined for the compiler, and Python's integers do
not wrap.
"""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper
from streams.engine.kernels._word import load_word
from streams.engine.kernels.arrays import U8

QUOTE = 34
COMMA = 44
COLON = 58
OPEN_LIST = 91
CLOSE_LIST = 93
OPEN_OBJECT = 123
CLOSE_OBJECT = 125

_SPACE = 32
_TAB, _NEWLINE, _RETURN = 9, 10, 13
_WORD = 8
# "null" as the low half of a word.
_NULL = int.from_bytes(b"null", "little")
_HALF = 2**32 - 1
_HIGH_HALF = 2**30 - 1
_FACTOR = 0x2C1B3C6D

# Strings are scanned in seven one-byte lanes: with an eighth, sums would overflow.
_LANES = 7
_ALL_LANES = 2**56 - 1
_ONES = 0x01010101010101
_LOW_BITS = 0x7F * _ONES
_QUOTES = QUOTE * _ONES
_BACKSLASHES = 0x5C * _ONES
_ABOVE_CONTROLS = (0x80 - _SPACE) * _ONES
# The lanes with an odd number.
_ODD = 1 << 8 | 1 << 24 | 1 << 40
_TWO = 1 << 16 | 1 << 24 | 1 << 48
_FOUR = 1 << 32 | 1 << 40 | 1 << 48

# [k]: a word of which only the first k bytes count; -1 is all eight.
_FIRST_BYTES = np.array([256**k - 1 for k in range(8)] + [-1], np.int64)


@helper
def byte_at(data: U8, at: int, stop: int) -> int:
    """The byte, or 0 from `stop` on: 0 is never searched for."""
    if at >= stop:
        return 0
    return int(np.int64(data[at]))


@helper
def word_at(data: U8, at: int) -> int:
    """The eight bytes at `at`, little-endian, zero beyond the array."""
    if at + _WORD <= data.size:
        return load_word(data, at)
    word = 0
    for k in range(data.size - at):
        word |= int(np.int64(data[at + k])) << (8 * k)
    return word


@helper
def first_bytes(data: U8, at: int, count: int) -> int:
    """The first `count` bytes (0 to 8) at `at` as a word."""
    return int(word_at(data, at) & _FIRST_BYTES[count])


@helper
def after_space(data: U8, at: int, stop: int) -> int:
    """The first position from `at` on that is no white space, at most `stop`."""
    while at < stop:
        byte = data[at]
        if byte > _SPACE or (byte != _SPACE and byte != _NEWLINE and byte != _TAB and byte != _RETURN):
            break
        at += 1
    return at


@helper
def _special_lanes(word: int) -> int:
    """1 in each lane whose byte is a quote, a backslash, a control character or not ASCII."""
    low = word & _LOW_BITS
    no_quote = (low ^ _QUOTES) + _LOW_BITS
    no_backslash = (low ^ _BACKSLASHES) + _LOW_BITS
    no_control = low + _ABOVE_CONTROLS
    return ((no_quote & no_backslash & no_control & ~word) >> 7) & _ONES ^ _ONES


@helper
def first_lane(lanes: int) -> int:
    """The number of the lowest lane that is 1; at least one is."""
    lowest = lanes & -lanes
    return int((lowest & _ODD) != 0) + 2 * int((lowest & _TWO) != 0) + 4 * int((lowest & _FOUR) != 0)


@helper
def string_end(data: U8, at: int, stop: int) -> int:
    """The position of the closing quote of the string whose text begins at `at`; -1 if it is not plain ASCII."""
    while at < stop:
        lanes = _special_lanes(word_at(data, at) & _ALL_LANES)
        if lanes != 0:
            at += first_lane(lanes)
            return at if byte_at(data, at, stop) == QUOTE else -1
        at += _LANES
    return -1


@helper
def is_null(data: U8, at: int, stop: int) -> bool:
    """Whether the literal `null` is there."""
    return at + 4 <= stop and (word_at(data, at) & _HALF) == _NULL


@helper
def _mixed(state: int, half: int) -> int:
    """Add a half word to a hash of 32 bits; the product stays below 2**62."""
    state = (state ^ half) * _FACTOR
    return (state ^ (state >> 31)) & _HALF


@helper
def hash_bytes(data: U8, at: int, size: int, state: int) -> int:
    """The hash after these bytes: 62 bits, computed in two halves."""
    low, high = state & _HALF, state >> 32
    stop = at + size - _WORD
    while at <= stop:
        word = word_at(data, at)
        low = _mixed(low, word & _HALF)
        high = _mixed(high, (word >> 32) & _HALF)
        at += _WORD
    left = stop + _WORD - at
    word = first_bytes(data, at, left)
    high = _mixed(high, (word >> 32) & _HALF)
    low = _mixed(_mixed(low ^ left, word & _HALF), high)
    return low | (high & _HIGH_HALF) << 32


@helper
def same_bytes(data: U8, at: int, other: U8, other_at: int, size: int) -> bool:
    """Whether both contain the same `size` bytes there."""
    stop = at + size - _WORD
    while at <= stop:
        if word_at(data, at) != word_at(other, other_at):
            return False
        at += _WORD
        other_at += _WORD
    left = stop + _WORD - at
    return bool(first_bytes(data, at, left) == first_bytes(other, other_at, left))
