"""Remembered ids against a dict of log times; exports, increments, growth."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.coverage.ids import SeenIds, SeenPart, identities128

HORIZON_MS = 100

# Few values, so that batches repeat ids; (0, 0) and cells that collide are among them.
keys = st.tuples(st.sampled_from([0, 1, 2, 1024, 2**64 - 1, 2**63]), st.sampled_from([0, 1, 2**64 - 1]))
batches = st.lists(st.tuples(st.lists(keys, max_size=8), st.integers(-60, 200)), max_size=25)


def columns(ids: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """Two arrays of the kernel."""
    return np.array([lo for lo, _ in ids], np.uint64), np.array([hi for _, hi in ids], np.uint64)


class Naive:
    """id -> log time at which it was taken as new."""

    def __init__(self) -> None:
        self.taken: dict[tuple[int, int], int] = {}
        self.now_ms = -(2**62)

    def check(self, ids: list[tuple[int, int]], is_new: list[bool], log_time_ms: int) -> None:
        """New ids must be new or older than the horizon; repeated ones must be known."""
        self.now_ms = max(self.now_ms, log_time_ms)
        in_call: set[tuple[int, int]] = set()
        for key, new in zip(ids, is_new, strict=True):
            if new:
                assert key not in in_call
                assert key not in self.taken or self.now_ms - self.taken[key] > HORIZON_MS
                self.taken[key] = self.now_ms
            else:
                assert key in self.taken
            in_call.add(key)


@given(batches)
def test_an_id_is_known_for_at_least_the_horizon(steps: list[tuple[list[tuple[int, int]], int]]) -> None:
    seen, twin, now = SeenIds(HORIZON_MS), Naive(), 0
    for ids, step in steps:
        now += step
        twin.check(ids, seen.add(*columns(ids), now).tolist(), now)


@given(batches, st.sets(st.integers(0, 24)), st.integers(0, 24))
def test_restored_from_a_base_and_increments_it_answers_the_same(
    steps: list[tuple[list[tuple[int, int]], int]], exports: set[int], crash: int
) -> None:
    seen, now = SeenIds(HORIZON_MS), 0
    parts: list[SeenPart] = [seen.export()]
    for number, (ids, step) in enumerate(steps):
        now += step
        if number == crash:
            parts.append(seen.export_new())
            restored = SeenIds.restore(HORIZON_MS, parts)
            assert len(restored) == len(seen)
            assert sorted(zip(*restored.export()[1:3], strict=True)) == sorted(
                zip(*seen.export()[1:3], strict=True)
            )
            seen = restored
            parts = [seen.export()]
        elif number in exports:
            parts.append(seen.export_new())
        kept = SeenIds.restore(HORIZON_MS, [seen.export()]) if number == crash else None
        answer = seen.add(*columns(ids), now)
        if kept is not None:
            assert kept.add(*columns(ids), now).tolist() == answer.tolist()


def test_a_jump_of_log_time_forgets_only_what_is_older_than_the_horizon() -> None:
    seen = SeenIds(HORIZON_MS)
    seen.add(*columns([(1, 1)]), 0)
    assert seen.add(*columns([(1, 1)]), 10 * HORIZON_MS).tolist() == [False]
    assert seen.add(*columns([(1, 1)]), 20 * HORIZON_MS).tolist() == [True]


def test_a_table_grows_and_keeps_its_ids() -> None:
    generator = np.random.default_rng(7)
    lo, hi = generator.integers(0, 2**64, (2, 20_000), np.uint64)
    seen = SeenIds(HORIZON_MS)
    for part in np.array_split(np.arange(len(lo)), 7):
        assert seen.add(lo[part], hi[part], 5).all()
    assert not seen.add(lo, hi, 5).any()
    assert len(seen) == len(lo)


def test_increments_out_of_order_are_refused() -> None:
    seen = SeenIds(HORIZON_MS)
    seen.add(*columns([(1, 1)]), 0)
    early = seen.export_new()
    seen.add(*columns([(2, 1)]), HORIZON_MS)
    late = seen.export_new()
    with pytest.raises(ValueError, match="out of order"):
        SeenIds.restore(HORIZON_MS, [late, early])


@given(st.lists(st.text()))
def test_identities_are_the_halves_of_xxh3(texts: list[str]) -> None:
    lo, hi = identities128(texts)
    assert [(high << 64) + low for low, high in zip(lo.tolist(), hi.tolist(), strict=True)] == [
        xxhash.xxh3_128_intdigest(text.encode()) for text in texts
    ]


def test_a_lone_surrogate_has_an_identity() -> None:
    lo, hi = identities128(["\ud800", ""])
    assert (lo[0], hi[0]) != (lo[1], hi[1])
