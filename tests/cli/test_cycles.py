"""The garbage collector looks at what is new, and now and then at everything."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from streams.cli import cycles


class _Node:
    def __init__(self) -> None:
        self.me = self


@pytest.fixture(autouse=True)
def _collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    threshold, callbacks = gc.get_threshold(), list(gc.callbacks)
    monkeypatch.setattr(cycles, "_WHOLE_EVERY", 3)
    cycles.collect_rarely()
    yield
    gc.callbacks[:] = callbacks
    gc.unfreeze()
    gc.set_threshold(*threshold)


def test_what_survived_a_full_collection_is_looked_at_again_by_one_in_so_many() -> None:
    node = _Node()
    gone = weakref.ref(node)
    gc.collect()  # it survives, and is exempt from now on
    del node
    gc.collect()
    assert gone() is not None
    gc.collect()  # the third looks at everything
    assert gone() is None


def test_new_cycles_are_collected_by_each_full_collection() -> None:
    gone = weakref.ref(_Node())
    gc.collect()
    assert gone() is None


def test_younger_generations_leave_survivors_to_the_next_full_collection() -> None:
    node = _Node()
    gone = weakref.ref(node)
    gc.collect(1)
    del node
    gc.collect()
    assert gone() is None
