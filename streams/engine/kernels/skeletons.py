"""Finds the skeleton of a message, its bytes without the variable parts, by hash and full comparison.

A skeleton is a sequence of spans, each with the key of the slot behind it; all skeletons are distinct.
"""

from __future__ import annotations

from typing import NamedTuple

from streams.engine.kernels._jit import helper, kernel
from streams.engine.kernels.arrays import F64, I32, I64, U8
from streams.engine.kernels.gpu_slots import (
    COUNT,
    END,
    GPU_COUNT,
    ID_AT,
    ID_SIZE,
    KEYS,
    MOST_SLOTS,
    NULLS,
    SPAN_COUNT,
    SPANS,
    read_slot,
)
from streams.engine.kernels.json_scan import hash_bytes, same_bytes

# Positions in `used`.
ENTRIES = 0
TEXT = 1
SEED = 2
LAST = 3  # the skeleton of the previous record
USED_SIZE = 4

NO_ROOM = -1
MOST_SPANS = MOST_SLOTS + 1
KEY_BITS = 5
KEY_MASK = 31


class Table(NamedTuple):
    """Skeletons numbered 0, 1, ...; the size of `cells` is a power of two, at most half full."""

    cells: I32  # open addressing: number + 1, 0 = empty
    hashes: I64
    text_at: I64
    text_size: I32
    is_refused: U8  # refused by the general decoder: records with this skeleton are not parsed here
    first_record: I32  # in the batch in which it first occurred
    next: I32  # the skeleton of the record that followed the last one of this: senders take turns
    has: I32  # the keys that are not null, as bits
    gpus: I32
    spans: I32  # [number * MOST_SPANS + k]: size << KEY_BITS | key of the slot behind it
    text: U8
    used: I64


@helper
def _same_text(data: U8, found: I64, text: U8, at: int) -> bool:
    for k in range(SPANS, SPANS + 3 * found[SPAN_COUNT], 3):
        if not same_bytes(data, found[k], text, at, found[k + 1]):
            return False
        at += found[k + 1]
    return True


@helper
def find_or_add(data: U8, found: I64, record: int, table: Table) -> int:
    """The number of the skeleton found in the data; NO_ROOM if it is new and there is no room."""
    state = table.used[SEED]
    size = 0
    for k in range(SPANS, SPANS + 3 * found[SPAN_COUNT], 3):
        state = hash_bytes(data, found[k], found[k + 1], state)
        size += found[k + 1]
    mask = table.cells.size - 1
    at = state & mask
    while table.cells[at] != 0:
        number = int(table.cells[at]) - 1
        if (
            table.hashes[number] == state
            and table.text_size[number] == size
            and _same_text(data, found, table.text, table.text_at[number])
        ):
            return number
        at = (at + 1) & mask
    number = int(table.used[ENTRIES])
    if number == table.hashes.size or table.used[TEXT] + size > table.text.size:
        return NO_ROOM
    table.cells[at] = number + 1
    table.hashes[number] = state
    table.text_size[number] = size
    table.first_record[number] = record
    _add(number, data, found, table)
    return number


@helper
def _add(number: int, data: U8, found: I64, table: Table) -> None:
    """Store a new skeleton."""
    to = table.used[TEXT]
    table.text_at[number] = to
    table.is_refused[number] = 0
    table.next[number] = number
    table.has[number] = found[KEYS] & ~found[NULLS]
    table.gpus[number] = found[GPU_COUNT]
    for k in range(found[SPAN_COUNT]):
        begin, size, key = found[SPANS + 3 * k], found[SPANS + 3 * k + 1], found[SPANS + 3 * k + 2]
        table.spans[number * MOST_SPANS + k] = size << KEY_BITS | key
        for j in range(begin, begin + size):
            table.text[to] = data[j]
            to += 1
    table.used[ENTRIES] = number + 1
    table.used[TEXT] = to


@helper
def read_as(
    number: int, data: U8, at: int, stop: int, values: F64, to: int, found: I64, table: Table
) -> bool:
    """Read the record in [at, stop) as one of that skeleton; return False if it is another, or a slot is not plain."""
    found[COUNT] = -1
    found[ID_AT] = 0
    found[ID_SIZE] = 0
    text_at = table.text_at[number]
    for k in range(number * MOST_SPANS, (number + 1) * MOST_SPANS):
        size = table.spans[k] >> KEY_BITS
        if at + size > stop or not same_bytes(data, at, table.text, text_at, size):
            return False
        at += size
        text_at += size
        key = table.spans[k] & KEY_MASK
        if key == END:
            break
        at = read_slot(key, data, at, stop, values, to, found)
        if at < 0:
            return False
    return bool(at == stop and found[COUNT] == table.gpus[number])


@kernel
def fill_skeletons(table: Table) -> None:
    """Enter all skeletons into the empty cells."""
    mask = table.cells.size - 1
    for number in range(table.used[ENTRIES]):
        at = table.hashes[number] & mask
        while table.cells[at] != 0:
            at = (at + 1) & mask
        table.cells[at] = number + 1
