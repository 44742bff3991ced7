"""Encodes and decodes integers as variable-length bytes.

The first byte of a number has its lowest six bits, its sign (64) and a continuation bit (128); each further
byte has the next seven bits.
"""

from __future__ import annotations

import numpy as np

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import U8


@helper
def write_number(value: int, out: U8, at: int) -> int:
    """Write a number, small ones in few bytes; return where it ends."""
    sign = 0
    if value < 0:
        sign = 64
        value = -value
    rest = value >> 6
    out[at] = (value & 63) | sign | (128 if rest > 0 else 0)
    at += 1
    while rest > 0:
        low = rest & 127
        rest >>= 7
        out[at] = low | (128 if rest > 0 else 0)
        at += 1
    return at


@helper
def read_number(data: U8, at: int, stop: int) -> tuple[int, int]:
    """The number at `at`, and where it ends: past `stop` if it is truncated."""
    if at >= stop:
        return 0, stop + 1
    byte = int(np.int64(data[at]))
    at += 1
    is_negative = byte & 64 != 0
    value = byte & 63
    shift = 6
    while byte >= 128:
        if at >= stop or shift > 62:
            return 0, stop + 1
        byte = int(np.int64(data[at]))
        at += 1
        if shift == 62 and byte & 127 > 1:  # more than an int64 holds: invalid
            return 0, stop + 1
        value |= (byte & 127) << shift
        shift += 7
    if is_negative:
        return -value, at
    return value, at


@helper
def write_word(value: int, out: U8, at: int) -> None:
    """Write the lower 32 bits, little-endian."""
    for k in range(4):
        out[at + k] = (value >> (8 * k)) & 255


@helper
def read_word(data: U8, at: int) -> int:
    """The int32 that write_word() wrote."""
    value = 0
    for k in range(4):
        value |= int(np.int64(data[at + k])) << (8 * k)
    return value - (1 << 32) if value >= 1 << 31 else value
