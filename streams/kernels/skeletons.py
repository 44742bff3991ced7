"""Skeletons: the bytes of a message without its numbers, found in a table by their hash and compared in full.

Must not grow a table: `find_or_add` says when there is no room.
"""

from __future__ import annotations

from typing import NamedTuple

from streams.kernels._jit import helper, kernel
from streams.kernels.arrays import I32, I64, U8
from streams.kernels.json_scan import hash_bytes, same_bytes

# Positions in `used`.
ENTRIES = 0
TEXT = 1
SEED = 2

NO_ROOM = -1


class Table(NamedTuple):
    """Skeletons under the numbers 0, 1, ...; `cells` is a power of two and at most half full."""

    cells: I32  # open addressing: number + 1, 0 = empty
    hashes: I64
    text_at: I64
    text_size: I32
    is_refused: U8  # by the general decoder: records of this skeleton are not taken
    first_record: I32  # of the batch in which it came
    text: U8
    used: I64


@helper
def _same_text(data: U8, spans: I64, count: int, text: U8, at: int) -> bool:
    for k in range(count):
        size = spans[2 * k + 1]
        if not same_bytes(data, spans[2 * k], text, at, size):
            return False
        at += size
    return True


@helper
def find_or_add(data: U8, spans: I64, count: int, record: int, table: Table) -> int:
    """The number of the skeleton whose bytes are `count` spans (place, size) of the data; NO_ROOM if it is new."""
    state = table.used[SEED]
    size = 0
    for k in range(count):
        state = hash_bytes(data, spans[2 * k], spans[2 * k + 1], state)
        size += spans[2 * k + 1]
    mask = table.cells.size - 1
    at = state & mask
    while table.cells[at] != 0:
        found = table.cells[at] - 1
        if (
            table.hashes[found] == state
            and table.text_size[found] == size
            and _same_text(data, spans, count, table.text, table.text_at[found])
        ):
            return int(found)
        at = (at + 1) & mask
    number = table.used[ENTRIES]
    to = table.used[TEXT]
    if number == table.hashes.size or to + size > table.text.size:
        return NO_ROOM
    table.cells[at] = number + 1
    table.hashes[number] = state
    table.text_at[number] = to
    table.text_size[number] = size
    table.is_refused[number] = 0
    table.first_record[number] = record
    for k in range(count):
        begin = spans[2 * k]
        for j in range(spans[2 * k + 1]):
            table.text[to] = data[begin + j]
            to += 1
    table.used[ENTRIES] = number + 1
    table.used[TEXT] = to
    return int(number)


@kernel
def fill_skeletons(table: Table) -> None:
    """Put all entries into the cells, which are empty."""
    mask = table.cells.size - 1
    for number in range(table.used[ENTRIES]):
        at = table.hashes[number] & mask
        while table.cells[at] != 0:
            at = (at + 1) & mask
        table.cells[at] = number + 1
