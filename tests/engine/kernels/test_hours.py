"""The sums of hours, against the cost of each minute in plain Python."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.kernels.hour_sums import sum_hours
from tests.engine.kernels.naive import Interval
from tests.engine.kernels.test_minutes import disjoint

MINUTE_MS, HOUR_MS = 60_000, 3_600_000
Piece = tuple[int, int, int]  # from_ms, until_ms, row


def cost_nano(quantity: int, usd_nano: int, divisor: int) -> int:
    return min(round(Fraction(quantity * usd_nano, divisor)), MAX_COST_NANO)


def by_minute(intervals: list[Interval], until_ms: int, *, lost: bool) -> dict[int, int]:
    """The quantity of each minute, as far as it falls before an instant."""
    found: dict[int, int] = {}
    for start_ms, end_ms, rate, flag in intervals:
        if flag or not lost:
            for minute in range(start_ms // MINUTE_MS, -(-end_ms // MINUTE_MS)):
                begin_ms, stop_ms = max(start_ms, minute * MINUTE_MS), min(end_ms, (minute + 1) * MINUTE_MS)
                length_ms = min(stop_ms, until_ms) - begin_ms
                found[minute] = found.get(minute, 0) + max(rate, 0) * max(length_ms, 0)
    return found


def naive(intervals: list[Interval], piece: Piece, usd_nano: int, divisor: int) -> tuple[int, ...]:
    """Quantity, lost quantity, cost and lost cost: what is before the end less what is before the beginning."""
    found = []
    for lost in (False, True):
        ends = [by_minute(intervals, at_ms, lost=lost) for at_ms in piece[:2]]
        costs = [sum(cost_nano(q, usd_nano, divisor) for q in minutes.values()) for minutes in ends]
        found.append((sum(ends[1].values()) - sum(ends[0].values()), costs[1] - costs[0]))
    (quantity, cost), (lost_quantity, lost_cost) = found
    return quantity, lost_quantity, cost, lost_cost


def summed(curves: list[list[Interval]], pieces: list[Piece], usd_nano: int, divisor: int) -> list[list[int]]:
    flat = [interval for curve in curves for interval in curve]
    ptr = np.cumsum([0, *map(len, curves)])
    sums = np.zeros((max((row for _, _, row in pieces), default=0) + 1, 6), np.int64)
    columns = [np.array([interval[k] for interval in flat], np.int64) for k in range(4)]
    count = len(curves)
    begins, ends, rows = ([piece[k] for piece in pieces] for k in range(3))
    sum_hours(
        ptr, columns[0], columns[1], columns[2], columns[3].astype(np.uint8), np.zeros(count, np.int32),
        np.full(count, usd_nano), np.full(count, divisor), np.tile(np.arange(6, dtype=np.int32), (count, 1)),
        [0, len(pieces)], begins, ends, rows, sums,
    )  # fmt: skip
    found: list[list[int]] = sums.tolist()
    return found


@given(
    st.lists(disjoint(), min_size=1, max_size=3),
    st.lists(st.integers(-200_000, 400_000), min_size=2, max_size=6, unique=True).map(sorted),
    st.integers(0, 10**12),
    st.integers(1, 3600),
)
def test_pieces_of_any_length(
    curves: list[list[Interval]], cuts: list[int], usd_nano: int, divisor: int
) -> None:
    pieces = [(cuts[at], cuts[at + 1], at) for at in range(len(cuts) - 1)]
    found = summed(curves, pieces, usd_nano, divisor)
    for piece in pieces:
        each = [naive(curve, piece, usd_nano, divisor) for curve in curves]
        want = [sum(values) for values in zip(*each, strict=True)]
        assert found[piece[2]] == [*want, want[0], want[3]]


def test_pieces_of_one_minute_add_up_to_its_cost() -> None:
    """Three thirds of 1 nano-dollar are not 0."""
    curve = [(0, 60_000, 1, 0)]
    pieces = [(0, 20_000, 0), (20_000, 40_000, 1), (40_000, 60_000, 2)]
    assert [row[2] for row in summed([curve], pieces, 1, 60_000)] == [0, 1, 0]


def test_several_pieces_may_belong_to_one_row() -> None:
    rows = summed([[(0, HOUR_MS, 1, 0)]], [(0, 90_000, 0), (90_000, 120_000, 1), (120_000, HOUR_MS, 0)], 1, 1)
    assert [row[0] for row in rows] == [HOUR_MS - 30_000, 30_000]


def test_a_cost_beyond_the_column_is_capped() -> None:
    rows = summed([[(0, HOUR_MS, 10**6, 0)]], [(0, HOUR_MS, 0)], 10**15, 1)
    assert rows[0][2] == MAX_COST_NANO


@pytest.mark.parametrize(
    ("owner", "row", "column", "price", "message"),
    [
        (1, 0, 0, 1, "a curve has no owner"),
        (0, 2, 0, 1, "a piece is outside the 1 rows"),
        (0, 0, 6, 1, "a column is outside the 6 of the sums"),
        (0, 0, 0, -1, "a price is negative"),
    ],
)
def test_what_a_kernel_would_read_past_is_refused(
    owner: int, row: int, column: int, price: int, message: str
) -> None:
    sums = np.zeros((1, 6), np.int64)
    with pytest.raises(ValueError, match=message):
        sum_hours(
            [0, 1], [0], [1], [1], np.zeros(1, np.uint8), np.array([owner], np.int32), [price], [1],
            np.full((1, 6), column, np.int32), [0, 1], [0], [HOUR_MS], [row], sums,
        )  # fmt: skip


def test_columns_have_six_places() -> None:
    with pytest.raises(ValueError, match="expected \\(curves, 6\\)"):
        sum_hours(
            [0, 1], [0], [1], [1], np.zeros(1, np.uint8), np.zeros(1, np.int32), [1], [1],
            np.zeros((1, 4), np.int32), [0, 1], [0], [HOUR_MS], [0], np.zeros((1, 6), np.int64),
        )  # fmt: skip
