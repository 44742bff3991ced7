"""Overlaps of intervals and pieces, against every pair in plain Python."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels.overlaps import overlaps

Span = tuple[int, int]


def spans(most_ms: int) -> st.SearchStrategy[list[Span]]:
    """Disjoint, in order; two may touch."""
    edges = st.lists(st.integers(0, most_ms), max_size=12, unique=True)
    return edges.map(lambda found: list(zip(sorted(found)[::2], sorted(found)[1::2], strict=False)))


def found(
    curves: list[list[Span]], pieces: list[list[Span]], looked_at: list[int]
) -> list[tuple[int, int, int]]:
    ptr, piece_ptr = ([0, *np.cumsum([len(each) for each in lists])] for lists in (curves, pieces))
    flat = [
        np.array([span for each in lists for span in each], np.int64).reshape(-1, 2)
        for lists in (curves, pieces)
    ]
    got = overlaps(
        ptr, flat[0][:, 0], flat[0][:, 1], looked_at, np.array(looked_at, np.int32), piece_ptr, flat[1][:, 0], flat[1][:, 1]
    )  # fmt: skip
    return list(zip(*(each.tolist() for each in got), strict=True))


@given(st.lists(st.tuples(spans(40), spans(40), st.booleans()), max_size=4))
def test_every_overlap_is_found_once_and_in_order(owners: list[tuple[list[Span], list[Span], bool]]) -> None:
    want = []
    place = 0
    for intervals, pieces, is_wanted in owners:
        for from_ms, until_ms in pieces:
            for start_ms, end_ms in intervals if is_wanted else []:
                if max(start_ms, from_ms) < min(end_ms, until_ms):
                    want.append((place, max(start_ms, from_ms), min(end_ms, until_ms)))
            place += 1
    looked_at = [number for number, (_, _, is_wanted) in enumerate(owners) if is_wanted]
    assert found([each[0] for each in owners], [each[1] for each in owners], looked_at) == want


@pytest.mark.parametrize(
    ("curve", "owner", "why"),
    [
        ([1], [0], "a curve has no intervals"),
        ([0], [1], "an owner has no pieces"),
        ([0, 0], [0, 0], "two curves"),
        ([0, 0], [0], "unequal length"),
    ],
)
def test_what_would_be_read_or_written_past_an_array_is_refused(
    curve: list[int], owner: list[int], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        overlaps([0, 1], [0], [10], curve, np.array(owner, np.int32), [0, 1], [0], [10])
