"""Versions: a later owner's rows win, whatever group, generation or life it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.worker.shards.versions import Version, VersionClock


@given(
    st.tuples(st.integers(0, 2**12 - 1), st.integers(0, 2**20 - 1), st.integers(0, 2**32 - 1)),
    st.tuples(st.integers(0, 2**12 - 1), st.integers(0, 2**20 - 1), st.integers(0, 2**32 - 1)),
)
def test_packed_versions_order_as_their_parts(one: tuple[int, int, int], two: tuple[int, int, int]) -> None:
    assert Version.unpack(Version(*one).pack()) == one
    assert (Version(*one).pack() < Version(*two).pack()) == (one < two)


@given(st.integers(0, 2**62), st.lists(st.integers(0, 2**20 - 1), max_size=8))
def test_every_version_is_above_all_before_it(stored: int, generations: list[int]) -> None:
    clock = VersionClock(stored, 5)
    given_out = [stored, clock.next(), clock.next()]
    for generation in generations:
        clock.enter(generation)
        given_out += [clock.next(), clock.next()]
    assert given_out == sorted(set(given_out))


def test_a_group_made_anew_counts_as_another_incarnation() -> None:
    clock = VersionClock(Version(0, 57, 9).pack(), 1)
    assert Version.unpack(clock.next()) == Version(1, 1, 1)


def test_a_static_member_that_comes_back_in_its_generation_leaves_room_for_inserts_on_their_way() -> None:
    clock = VersionClock(Version(0, 57, 9).pack(), 57)
    assert Version.unpack(clock.next()) == Version(0, 57, 2**16 + 1)


def test_a_life_that_stored_nothing_shares_no_version_with_the_next() -> None:
    stored, now_ms = Version(0, 57, 9).pack(), 1_800_000_000_000
    for generation in (57, 58):
        one, two = (VersionClock(stored, generation, now_ms + later_ms) for later_ms in (0, 1_000))
        assert one.next() < one.next() < one.next() < two.next()


def test_the_seconds_leave_room_for_blocks_whenever_they_come_around() -> None:
    clock = VersionClock(0, 1, (2**27 - 1) * 1000)
    for _ in range(1_000):
        clock.enter(1, 2**27 * 1000)
    assert Version.unpack(clock.next()).counter < 2**32


def test_a_part_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="does not fit"):
        Version(2**12, 0, 0).pack()
