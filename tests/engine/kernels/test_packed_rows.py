"""Old rows against their twin, there and back, and bytes that are no rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from streams.engine.coverage.arrays import CoverageArrays
from streams.engine.kernels.packed_rows import ROW_BYTES_MOST, SEGMENT_BYTES_MOST, pack_rows, unpack_rows
from streams.engine.kernels.store import COUNTS, ROWS, CoverageStore
from tests.engine.kernels.naive_packed_rows import Minute, segment, segments

FAR = 9 * 10**18
sums = st.one_of(
    st.just(480), st.integers(0, 500), st.integers(0, 480_000), st.sampled_from([0, 63, 64, FAR])
)
pairs = st.tuples(sums, sums)
lines = st.one_of(
    st.integers(0, 65_535).map(lambda value: (value,) * 60),
    st.lists(st.sampled_from([0, 7, 8, 65_535]), min_size=60, max_size=60).map(tuple),
)


@st.composite
def holders(draw: st.DrawFn) -> list[list[Minute]]:
    """Rows of some holders, all with the same parts."""
    has = draw(st.tuples(st.booleans(), st.booleans(), st.booleans()))
    optional = [
        values if used else st.none() for used, values in zip(has, (pairs, pairs, lines), strict=True)
    ]
    row = st.builds(Minute, st.just(0), st.tuples(sums, sums, sums, sums), *optional)
    found = []
    for _ in range(draw(st.integers(1, 3))):
        steps = draw(st.lists(st.sampled_from([1, 1, 1, 2, 500]), min_size=1, max_size=8))
        minutes = np.cumsum([draw(st.sampled_from([-(2**31), -5, 29_000_000])), *steps]).tolist()
        drawn = draw(st.lists(row, min_size=len(steps), max_size=len(steps)))
        if draw(st.booleans()):
            drawn = [drawn[0]] * len(drawn)  # nothing changes
        found.append([each._replace(minute=m) for each, m in zip(drawn, minutes, strict=False)])
    return found


def empty(owners: list[list[Minute]]) -> CoverageArrays:
    """Arrays with these holders, without a row."""
    arrays, first = CoverageArrays(20), owners[0][0]
    arrays.use_planes(first.sm is not None, first.tensor is not None)
    for _ in owners:
        arrays.add_holder(first.counts is not None)
    arrays.reserve_rows(sum(map(len, owners)))
    return arrays


def filled(owners: list[list[Minute]]) -> CoverageStore:
    """A store with these rows, in order."""
    store = empty(owners).store
    place = 0
    for holder, rows in enumerate(owners):
        for row in rows:
            store.rows[place] = (holder, row.minute, -1, place if row.counts else -1, 0, *row.sums)
            if row.sm is not None:
                store.sm_rows[place] = row.sm
            if row.tensor is not None:
                store.tensor_rows[place] = row.tensor
            if row.counts is not None:
                store.counts[place] = row.counts
            place += 1
    return store


def packed(owners: list[list[Minute]]) -> bytes:
    """One segment of each holder."""
    store = filled(owners)
    ptr = np.cumsum([0, *map(len, owners)])
    out = np.zeros(int(ptr[-1]) * ROW_BYTES_MOST + len(owners) * SEGMENT_BYTES_MOST, np.uint8)
    out_ptr = np.zeros(len(ptr), np.int64)
    pack_rows(np.arange(int(ptr[-1])), ptr, store, out, out_ptr)
    data = out[: out_ptr[-1]].tobytes()
    assert [data[a:b] for a, b in pairwise(out_ptr.tolist())] == list(segments(data))
    return data


def opened(data: bytes, owners: list[list[Minute]], arrays: CoverageArrays) -> int:
    ptr = np.cumsum([0, *map(len, segments(data))])
    values, work = np.frombuffer(data, np.uint8).copy(), np.zeros(max(map(len, owners)), np.int64)
    return unpack_rows(values, ptr, np.arange(len(owners)), arrays.store, work)


@given(holders())
def test_segments_equal_the_twin_and_come_back_as_they_were(owners: list[list[Minute]]) -> None:
    data = packed(owners)
    assert data == b"".join(map(segment, owners))
    arrays, want = empty(owners), filled(owners)
    assert opened(data, owners, arrays) == -1
    store, count = arrays.store, sum(map(len, owners))
    assert int(store.used[ROWS]) == count
    names = [name for name in store.rows.dtype.names or () if name != "older"]
    assert store.rows[names][:count].tolist() == want.rows[names][:count].tolist()
    assert store.sm_rows[:count].tolist() == want.sm_rows[:count].tolist()
    assert store.tensor_rows[:count].tolist() == want.tensor_rows[:count].tolist()
    assert store.counts[: store.used[COUNTS]].tolist() == want.counts[: store.used[COUNTS]].tolist()


def test_a_row_that_is_there_is_newer_and_stays() -> None:
    owners = [[Minute(5, (1, 2, 3, 4), None, None, None), Minute(6, (1, 2, 3, 4), None, None, None)]]
    data, arrays = packed(owners), empty(owners)
    assert opened(data, owners, arrays) == -1
    arrays.store.rows["sampled_gpu_s"][1] = 60
    arrays.reserve_rows(2)
    assert opened(data, owners, arrays) == -1
    assert arrays.rows == 2
    assert arrays.store.rows["sampled_gpu_s"][:2].tolist() == [1, 60]


def test_counts_of_a_holder_that_keeps_none_any_more_are_passed_over() -> None:
    owners = [
        [Minute(5, (1, 2, 3, 4), None, None, (8,) * 60), Minute(6, (9, 2, 3, 4), None, None, (7,) * 60)]
    ]
    data, arrays = packed(owners), empty(owners)
    arrays.store.holders["counting"] = 0
    assert opened(data, owners, arrays) == -1
    assert arrays.store.rows["sampled_gpu_s"][:2].tolist() == [1, 9]
    assert arrays.store.rows["counts_at"][:2].tolist() == [-1, -1]


@settings(max_examples=50)
@given(holders(), st.data())
def test_bytes_that_are_cut_off_or_changed_never_reach_beyond(
    owners: list[list[Minute]], data: st.DataObject
) -> None:
    whole = packed(owners[:1])
    cut = data.draw(st.integers(17, len(whole) - 1), label="cut")
    arrays = empty(owners)
    values, work = np.frombuffer(whole[:cut], np.uint8).copy(), np.zeros(len(owners[0]), np.int64)
    assert unpack_rows(values, np.array([0, cut]), np.zeros(1, np.int64), arrays.store, work) == 0
    place = data.draw(st.integers(17, len(whole) - 1), label="place")
    values = np.frombuffer(whole, np.uint8).copy()
    values[place] ^= data.draw(st.integers(1, 255), label="by")
    again = empty(owners)
    unpack_rows(values, np.array([0, len(whole)]), np.zeros(1, np.int64), again.store, work)
    assert again.rows <= len(owners[0])
