"""The minutes that changed, against a full derivation of both lists."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels import minutes as kernels
from streams.engine.kernels.minutes import MAX_RATE, diff_minutes
from tests.counted_work import instructions, plain
from tests.engine.kernels import naive
from tests.engine.kernels.naive import Interval

Lines = list[list[Interval]]

instants = st.one_of(
    st.integers(-200_000, 400_000), st.integers(-3, 6).map(lambda m: m * 60_000), st.integers(0, 10)
)


@st.composite
def disjoint(draw: st.DrawFn) -> list[Interval]:
    """Sorted, disjoint, often touching; some empty, some without a rate."""
    cuts = sorted(draw(st.lists(instants, max_size=8)))
    found = []
    for start, end in itertools.pairwise(cuts):
        if draw(st.booleans()):
            found.append((start, end, draw(st.integers(-1, 5)), draw(st.integers(0, 1))))
    return found


@st.composite
def edited(draw: st.DrawFn) -> tuple[Lines, Lines]:
    """Old and new lists, the new ones often a small change of the old."""
    old = draw(st.lists(disjoint(), max_size=4))
    new: Lines = []
    for line in old:
        kind = draw(st.integers(0, 4))
        if kind == 0 or not line:
            new.append(draw(disjoint()))
        elif kind == 1:
            start, end, rate, lost = line[-1]
            new.append([*line[:-1], (start, end + draw(st.integers(-100_000, 200_000)), rate, lost)])
        elif kind == 2:
            new.append([(start, end, rate, 1) for start, end, rate, _ in line])
        elif kind == 3:
            start, end, rate, lost = line[0]
            middle = (start + end) // 2
            new.append([(start, middle, rate, lost), (middle, end, rate, lost), *line[1:]])
        else:
            new.append(list(line))
    return old, new


def flat(lines: Lines) -> tuple[Any, ...]:
    """The arrays of the kernel."""
    every = [interval for line in lines for interval in line]
    pointers = np.cumsum([0, *(len(line) for line in lines)]).astype(np.int64)
    columns = [np.array([interval[k] for interval in every], np.int64) for k in range(4)]
    return pointers, *columns[:3], columns[3].astype(np.uint8)


def diff(old: Lines, new: Lines) -> list[tuple[int, int, int, int, int]]:
    """The kernel's rows as tuples."""
    return list(zip(*(column.tolist() for column in diff_minutes(*flat(old), *flat(new))), strict=True))


@given(edited())
def test_changed_minutes_equal_a_full_derivation(lists: tuple[Lines, Lines]) -> None:
    """Both ways: what appears, what goes, what changes."""
    old, new = lists
    assert diff(old, new) == naive.diff_minutes(old, new)
    assert diff(new, old) == naive.diff_minutes(new, old)


def test_a_move_inside_one_minute_is_no_change() -> None:
    """The row holds a quantity, not instants."""
    assert diff([[(0, 1000, 3, 0)]], [[(5000, 6000, 3, 0)]]) == []


def test_a_grown_interval_costs_only_its_new_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A day of old minutes is not visited again: it costs as many steps as an hour."""
    plain(monkeypatch, kernels)
    steps = []
    for age_ms in (3_600_000, 86_400_000):
        old = [[(k, age_ms, 8000, 0)] for k in range(2)]
        new = [[(k, age_ms + 60_000, 8000, 0)] for k in range(2)]
        steps.append(instructions(diff, old, new))
        assert diff(old, new) == [(k, age_ms // 60_000, 8000 * 60_000, 0, 0) for k in range(2)]
    assert steps[0] == steps[1]


def test_more_new_minutes_cost_more_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the test above counts."""
    plain(monkeypatch, kernels)
    steps = [instructions(diff, [[]], [[(0, end, 1, 0)]]) for end in (60_000, 120_000)]
    assert steps[1] > steps[0] + 100


def test_a_rate_beyond_int64_saturates() -> None:
    """A minute never wraps around."""
    assert diff([[]], [[(0, 60_000, 2**62, 1)]]) == [(0, 0, MAX_RATE * 60_000, MAX_RATE * 60_000, 0)]


def test_wrong_pointers_are_refused() -> None:
    """The kernel reads without bounds checks."""
    good = flat([[(0, 1, 1, 0)]])
    for pointers in ([0, 2], [1, 1], [0, 1, 0, 1], []):
        with pytest.raises(ValueError, match="pointers"):
            diff_minutes(np.array(pointers, np.int64), *good[1:], *good)
    with pytest.raises(ValueError, match="unequal"):
        diff_minutes(*good, *flat([[], []]))
