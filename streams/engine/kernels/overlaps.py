"""Finds where intervals of owners overlap pieces of their time."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from streams.engine.kernels._jit import kernel
from streams.engine.kernels.arrays import I32, I64, check_pointers, equal_lengths, exact


class Overlaps(NamedTuple):
    """[n] int64 each: the piece, and the time of it that an interval covers."""

    piece: I64
    from_ms: I64
    until_ms: I64


@kernel
def _overlap(
    ptr: I64,
    start: I64,
    end: I64,
    curve: I64,
    owner: I32,
    piece_ptr: I64,
    from_ms: I64,
    until_ms: I64,
    piece: I64,
    begin: I64,
    stop: I64,
) -> int:
    found = 0
    for k in range(curve.size):
        i, last = ptr[curve[k]], ptr[curve[k] + 1]
        for p in range(piece_ptr[owner[k]], piece_ptr[owner[k] + 1]):
            while i < last and end[i] <= from_ms[p]:
                i += 1
            j = i
            while j < last and start[j] < until_ms[p]:
                piece[found] = p
                begin[found] = max(start[j], from_ms[p])
                stop[found] = min(end[j], until_ms[p])
                found += 1
                j += 1
    return found


def overlaps(
    curve_ptr: ArrayLike,
    start: ArrayLike,
    end: ArrayLike,
    curve: ArrayLike,
    owner: ArrayLike,
    piece_ptr: ArrayLike,
    from_ms: ArrayLike,
    until_ms: ArrayLike,
) -> Overlaps:
    """Where the intervals of some curves overlap the pieces of their owners, in order of curves and time.

    Args:
        curve_ptr: [curves + 1] int64; the intervals of curve k are curve_ptr[k]..curve_ptr[k + 1].
        start: [intervals] int64, ms; disjoint and ascending within a curve.
        end: [intervals] int64, ms.
        curve: [m] int64, the curves that are looked at; one for each owner at most.
        owner: [m] int32, the owner of each of them.
        piece_ptr: [owners + 1] int64; the pieces of owner o are piece_ptr[o]..piece_ptr[o + 1].
        from_ms: [pieces] int64, ascending within an owner.
        until_ms: [pieces] int64, at most the next `from_ms`.

    Raises:
        ValueError: The arrays do not fit each other.
    """
    pointers, pieces = exact(curve_ptr, np.int64), exact(piece_ptr, np.int64)
    starts, ends = exact(start, np.int64), exact(end, np.int64)
    begins, stops = exact(from_ms, np.int64), exact(until_ms, np.int64)
    curves, owners = exact(curve, np.int64), exact(owner, np.int32)
    check_pointers(pointers, equal_lengths(starts, ends))
    check_pointers(pieces, equal_lengths(begins, stops))
    # The kernel reads and writes without bounds checks.
    if equal_lengths(curves, owners):
        if curves.min() < 0 or curves.max() >= pointers.size - 1:
            raise ValueError("a curve has no intervals")
        if owners.min() < 0 or owners.max() >= pieces.size - 1 or np.unique(owners).size < owners.size:
            raise ValueError("an owner has no pieces, or two curves")
    # Disjoint spans of two lists overlap fewer times than both have spans.
    most = starts.size + begins.size
    found = Overlaps(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(most, np.int64))
    size = _overlap(pointers, starts, ends, curves, owners, pieces, begins, stops, *found)
    return Overlaps(*(each[:size] for each in found))
