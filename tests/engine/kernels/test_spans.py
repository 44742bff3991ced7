"""What records of one shape say together, against a plain twin."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.kernels.spans import ABSENT, SPAN, sum_up

Row = tuple[bool, int, int, int, bytes]  # wanted, shape, time_ms, interval_ms, id

ROWS = st.lists(
    st.tuples(
        st.booleans(),
        st.integers(0, 3),
        st.integers(0, 200_000).map(lambda ms: ms // 500 * 500),
        st.sampled_from([1, 999, 1000, 30_000, 61_000]),
        st.sampled_from([b"", b"a", b"ab", b"b"]),
    ),
    max_size=30,
)


def minutes(row: Row) -> range:
    _, _, time_ms, interval_ms, _ = row
    begin_s, end_s = (time_ms - interval_ms) // 1000, time_ms // 1000
    return range(begin_s // 60, (end_s - 1) // 60 + 1) if end_s > begin_s else range(0)


OWNERS = np.array([0, 0, 1, 1], np.int32)  # by shape


def newest_by_minute(rows: list[Row], order: int) -> dict[tuple[int, int], tuple[int, int, bytes]]:
    """By owner and minute, if the texts of shapes compare as their numbers do, or the other way round."""
    found: dict[tuple[int, int], tuple[int, int, bytes]] = {}
    for _, shape, time_ms, interval_ms, text in rows:
        for minute in minutes((True, shape, time_ms, interval_ms, text)):
            key = int(OWNERS[shape]), minute
            found[key] = max(found.get(key, (-1, 0, b"")), (time_ms, order * shape, text))
    return found


@given(ROWS, st.integers(1, 3))
def test_the_spans_and_the_newest_of_each_minute(rows: list[Row], calls: int) -> None:
    spans = np.full(2, ABSENT, SPAN)
    data = np.frombuffer(b"".join(row[4] for row in rows), np.uint8)
    sizes = np.array([len(row[4]) for row in rows], np.int32)
    at = (np.cumsum(sizes) - sizes).astype(np.int64)
    n = len(rows)
    for _ in range(calls):  # nothing stays behind
        seen, newest = np.empty(n, np.int32), np.empty(n, np.int64)
        first_ms, last_ms = np.empty((2, n), np.int64)
        owners, found = sum_up(
            np.array([row[0] for row in rows], np.uint8),
            np.array([row[1] for row in rows], np.int32),
            OWNERS,
            np.array([row[2] for row in rows], np.int64),
            np.array([row[3] for row in rows], np.int64),
            at, sizes, data, spans, seen, first_ms, last_ms, newest,
        )  # fmt: skip
    wanted = [row for row in rows if row[0]]
    times = {owner: [row[2] for row in wanted if OWNERS[row[1]] == owner] for owner in (0, 1)}
    assert dict(zip(seen[:owners].tolist(), zip(first_ms, last_ms, strict=False), strict=False)) == {
        owner: (min(ms), max(ms)) for owner, ms in times.items() if ms
    }
    picked = [rows[i] for i in newest[:found]]
    for order in (1, -1):
        assert newest_by_minute(picked, order) == newest_by_minute(wanted, order)
    assert all(row[0] and minutes(row) for row in picked)
