"""Few amounts are spread over minutes, prices and lost spans as many are by the kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.durations import BEGINNING_MS, MINUTE_MS
from streams.engine.kernels.spread import spread
from streams.engine.pricing.kinds import Kind, unpriced
from streams.engine.timeline.lines import Line
from streams.engine.timeline.spread_few import IntervalAmount, spread_few

LINES = [
    Line("", "", unpriced("network", Kind(kind)), (path,))
    for kind, path in ((Kind.GPU_TIME, ""), (Kind.CPU_TIME, ""), (Kind.CPU_TIME, "nat"))
]
instants = st.one_of(st.integers(0, 5).map(lambda minute: minute * MINUTE_MS), st.integers(0, 5 * MINUTE_MS))


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[int, Line]]:
    times = sorted(draw(st.sets(instants, max_size=2)))
    return [(at_ms, draw(st.sampled_from(LINES))) for at_ms in (BEGINNING_MS, *times)]


amounts = st.builds(
    IntervalAmount,
    st.booleans(),
    st.one_of(st.integers(0, 1000), st.integers(0, 2**63 - 1)),
    instants,
    st.one_of(st.just(0), st.integers(1, 4 * MINUTE_MS)),
    steps(),
)


@st.composite
def lost_spans(draw: st.DrawFn) -> list[tuple[int, int]]:
    ends = sorted(draw(st.sets(instants, max_size=4)))
    return list(zip(ends[::2], ends[1::2], strict=False))


def by_kernel(
    few: list[IntervalAmount], lo: int, hi: int, lost: list[tuple[int, int]]
) -> dict[Any, tuple[int, int]]:
    lines: dict[Line, int] = {}
    pointers, cuts, cut_lines = [0], [], []
    for each in few:
        for from_ms, line in each.steps:
            cuts.append(from_ms)
            cut_lines.append(lines.setdefault(line, len(lines)))
        pointers.append(len(cuts))
    found = spread(
        np.array([each.linear for each in few], np.uint8), [each.amount for each in few], [each.start_ms for each in few],
        [each.interval_ms for each in few], pointers, cuts, np.array(cut_lines, np.int32), lo, hi,
        [span[0] for span in lost], [span[1] for span in lost],
    )  # fmt: skip
    named = list(lines)
    rows = zip(*(column.tolist() for column in found), strict=True)
    return {(named[line], minute): (quantity, lost) for line, minute, quantity, lost in rows}


@settings(max_examples=200, deadline=None)
@given(st.lists(amounts, max_size=4), st.integers(0, 3), st.integers(0, 4), lost_spans())
def test_few_amounts_come_to_what_the_kernel_says(
    few: list[IntervalAmount], lo: int, minutes: int, lost: list[tuple[int, int]]
) -> None:
    assert spread_few(few, lo, lo + minutes, lost) == by_kernel(few, lo, lo + minutes, lost)


@pytest.mark.parametrize("linear", [True, False])
def test_what_has_no_length_lies_at_its_instant(linear: bool) -> None:
    line = LINES[0]
    each = IntervalAmount(linear, 7, MINUTE_MS, 0, [(BEGINNING_MS, line)])
    assert spread_few([each], 0, 2, []) == ({} if linear else {(line, 1): (7, 0)})
