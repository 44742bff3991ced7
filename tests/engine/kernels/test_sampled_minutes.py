"""Metered minutes against a sum over milliseconds."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.kernels.sampled_minutes import minute_pieces
from tests.engine.kernels import naive

offsets = st.lists(st.one_of(st.integers(0, 60_000), st.integers(0, 60).map(lambda s: s * 1000)), max_size=4)
minutes = st.tuples(
    st.lists(st.integers(0, 65_535), min_size=60, max_size=60), offsets.map(lambda cuts: [0, *sorted(cuts)])
)


@settings(max_examples=30)
@given(st.lists(minutes, max_size=3))
def test_pieces_equal_a_sum_over_milliseconds(rows: list[tuple[list[int], list[int]]]) -> None:
    counts = np.array([row[0] for row in rows], np.uint16).reshape(-1, 60)
    pointers = np.cumsum([0, *(len(cuts) for _, cuts in rows)])
    flat = np.array([cut for _, cuts in rows for cut in cuts], np.int32)
    want = [piece for row in rows for piece in naive.minute_pieces(*row)]
    assert minute_pieces(counts, pointers, flat).tolist() == want


@pytest.mark.parametrize("cuts", [[1], [0, -1], [0, 5, 4], [0, 60_001]])
def test_cuts_that_do_not_rise_within_the_minute_are_refused(cuts: list[int]) -> None:
    with pytest.raises(ValueError, match="row 0"):
        minute_pieces(np.ones((1, 60), np.uint16), [0, len(cuts)], np.array(cuts, np.int32))


def test_counts_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        minute_pieces(np.ones((1, 59), np.uint16), [0, 1], np.array([0], np.int32))
