"""Sorting by time, in memory and in files."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.backfill.histories import Owner
from streams.backfill.sorting import EventSorter
from streams.topics import Topic

EVENTS = st.lists(
    st.tuples(
        st.integers(-5, 5),
        st.sampled_from([Topic.JOBS, Topic.GPU]),
        st.builds(Owner, st.text(max_size=3), st.booleans()),
        st.binary(max_size=40),
        st.lists(st.tuples(st.text(max_size=3), st.binary(max_size=3)), max_size=2),
    )
)


@given(EVENTS, st.integers(1, 2_000))
def test_it_is_a_stable_sort_however_many_runs_there_are(
    events: list[tuple[int, Topic, Owner, bytes, list[tuple[str, bytes]]]], run_bytes: int
) -> None:
    with EventSorter(run_bytes) as sorter:
        for event in events:
            sorter.add(*event)
        want = sorted(events, key=lambda event: event[0])
        for _ in range(2):  # it may be read again
            found = [(e.time_ms, e.topic, e.owner, e.value, e.headers) for e in sorter.sorted()]
            assert found == want
    assert sorter.events == len(events)


def test_events_longer_than_what_is_read_at_once() -> None:
    values = [bytes([number]) * 1_000_000 for number in range(3)]
    with EventSorter(1) as sorter:
        for time_ms, value in zip((3, 1, 2), values, strict=True):
            sorter.add(time_ms, Topic.GPU, Owner("j"), value, [])
        assert [event.value for event in sorter.sorted()] == [values[1], values[2], values[0]]
