"""Old rows as bytes, the slow, obvious way: a segment from a list of minutes."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import groupby, pairwise
from typing import NamedTuple


class Minute(NamedTuple):
    """A row: its minute, its four sums, those of the planes (None: not in use), its 60 counts (None: not kept)."""

    minute: int
    sums: tuple[int, int, int, int]
    sm: tuple[int, int] | None
    tensor: tuple[int, int] | None
    counts: tuple[int, ...] | None


def number(value: int) -> bytes:
    """Six bits and a sign, then seven bits a byte; 128 says that there is more."""
    rest = abs(value)
    bits = [rest & 63 | (64 if value < 0 else 0)]
    rest >>= 6
    while rest:
        bits.append(rest & 127)
        rest >>= 7
    return bytes([*(each | 128 for each in bits[:-1]), bits[-1]])


def segment(rows: list[Minute]) -> bytes:
    """Rows of rising minutes."""
    parts = 1 * (rows[0].sm is not None) + 2 * (rows[0].tensor is not None) + 4 * (rows[0].counts is not None)
    columns = [[row.minute - place for place, row in enumerate(rows)]]
    columns += [[row.sums[k] for row in rows] for k in range(4)]
    columns += [[row.sm[k] for row in rows if row.sm is not None] for k in range(2) if parts & 1]
    columns += [[row.tensor[k] for row in rows if row.tensor is not None] for k in range(2) if parts & 2]
    body = b"".join(map(column, columns))
    if parts & 4:
        body += b"".join(counts(row.counts) for row in rows if row.counts is not None)
    return struct.pack("<IIiiB", 17 + len(body), len(rows), rows[0].minute, rows[-1].minute, parts) + body


def column(values: list[int]) -> bytes:
    """The first value, and unless all are the same the steps."""
    if len(set(values)) == 1:
        return b"\0" + number(values[0])
    return b"\1" + number(values[0]) + b"".join(number(b - a) for a, b in pairwise(values))


def counts(line: tuple[int, ...]) -> bytes:
    """Runs of equal seconds."""
    runs = [(value, len(list(those))) for value, those in groupby(line)]
    return bytes([len(runs)]) + b"".join(number(value) + bytes([length]) for value, length in runs)


def segments(data: bytes) -> Iterator[bytes]:
    """One after the other."""
    while data:
        size = struct.unpack_from("<I", data)[0]
        yield data[:size]
        data = data[size:]
