"""Amounts spread over minutes, lines and lost intervals, against every boundary in Python integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from streams.engine.kernels.spread import spread
from tests.engine.kernels import naive
from tests.engine.kernels.naive import Amount

INT64_MIN = -(2**63)
MONTH_MS = 31 * 86_400_000

near = st.one_of(st.integers(-100_000, 400_000), st.integers(-2, 6).map(lambda m: m * 60_000))
sizes = st.one_of(st.integers(0, 10), st.integers(0, 2**53), st.integers(0, 2**63 - 1))


@st.composite
def cuts(draw: st.DrawFn) -> list[tuple[int, int]]:
    times = [INT64_MIN, *sorted(draw(st.lists(near, max_size=4)))]
    return [(at, draw(st.sampled_from((0, 0, 1, 2, -1)))) for at in times]


@st.composite
def amounts(draw: st.DrawFn) -> Amount:
    interval = draw(st.one_of(st.just(0), st.integers(1, 1000), st.integers(1, 400_000)))
    return draw(st.integers(0, 1)), draw(sizes), draw(near), interval, draw(cuts())


@st.composite
def disjoint(draw: st.DrawFn) -> list[tuple[int, int]]:
    times = sorted(draw(st.lists(near, max_size=6, unique=True)))
    return list(zip(times[::2], times[1::2], strict=False))


def run(events: list[Amount], lo: int, hi: int, lost: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The kernel's rows as tuples."""
    every: list[tuple[int, int]] = [cut for event in events for cut in event[4]]
    linear = np.array([event[0] for event in events], np.uint8)
    amount = np.array([event[1] for event in events], np.int64)
    start = np.array([event[2] for event in events], np.int64)
    interval = np.array([event[3] for event in events], np.int64)
    pointers = np.cumsum([0, *(len(event[4]) for event in events)])
    cut_ms = np.array([at for at, _ in every], np.int64)
    cut_line = np.array([line for _, line in every], np.int32)
    lost_start = np.array([a for a, _ in lost], np.int64)
    lost_end = np.array([b for _, b in lost], np.int64)
    found = spread(linear, amount, start, interval, pointers, cut_ms, cut_line, lo, hi, lost_start, lost_end)
    return list(zip(*(column.tolist() for column in found), strict=True))


@settings(max_examples=100)  # an example takes a millisecond
@given(st.lists(amounts(), min_size=1, max_size=5), st.integers(-3, 3), st.integers(0, 8), disjoint())
@example([(0, 100, 30_000, 90_000, [(INT64_MIN, 0)])], 0, 2, [])
def test_pieces_equal_python(
    events: list[Amount], lo: int, minutes: int, lost: list[tuple[int, int]]
) -> None:
    hi = lo + minutes
    assert run(events, lo, hi, lost) == naive.spread(events, lo, hi, lost)


@given(st.integers(0, 2**53), st.integers(1, MONTH_MS), st.integers(0, 10**6))
def test_the_pieces_of_a_month_sum_to_the_amount(amount: int, interval: int, start: int) -> None:
    rows = run([(0, amount, start, interval, [(INT64_MIN, 0)])], -(2**40), 2**40, [])
    assert sum(row[2] for row in rows) == amount


def test_a_far_event_costs_nothing_outside_the_minutes_asked_for() -> None:
    events: list[Amount] = [(0, 2**53, 0, MONTH_MS, [(INT64_MIN, 0)])] * 1000
    rows = run(events, 5, 7, [(0, MONTH_MS)])
    one = naive.spread(events[:1], 5, 7, [(0, MONTH_MS)])
    assert [row[2] for row in rows] == [1000 * row[2] for row in one]
    assert all(row[2] == row[3] for row in rows)


@pytest.mark.parametrize(("amount", "interval"), [(-1, 1), (1, -1)])
def test_negative_amounts_and_intervals_are_refused(amount: int, interval: int) -> None:
    with pytest.raises(ValueError, match="event 1"):
        run([(0, 1, 0, 1, []), (0, amount, 0, interval, [])], 0, 1, [])


def test_saturated_pieces_do_not_vanish() -> None:
    events: list[Amount] = [(1, 2**62, 0, 120_000, [(INT64_MIN, 0)])]
    assert [row[2] for row in run(events, 0, 2, [])] == [2**63 - 1] * 2


def test_an_event_without_cuts_books_nothing() -> None:
    assert run([(0, 7, 0, 10, [])], 0, 1, []) == []
