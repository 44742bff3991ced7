"""A worker that does not know yet that it is out must not take the later owner's rows for those of an older group."""

from __future__ import annotations

import asyncio

import pytest

from streams.worker.shards.versions import LaterGenerationError, Version, refuse_if_later
from tests.memory_store import MemoryStore
from tests.worker.lab import until
from tests.worker.test_shard_manager import Bench, Consumer


class Asked(Consumer):
    """Says whether the group is in the generation asked for, and counts how often it was asked."""

    def __init__(self, *, answers: list[bool]) -> None:
        super().__init__()
        self.answers = answers

    async def confirm(self, generation: int) -> bool:
        return self.answers.pop(0) if self.answers else False


def stored_under(version: Version) -> MemoryStore:
    """A store that knows this version of shard 0."""
    store = MemoryStore()
    store.snapshots.save(0, version.pack(), 0, b"{}")
    return store


def owned(bench: Bench, generation: int) -> Version:
    """The first version that shard 0 would give after a restore."""
    asyncio.run(bench.own({0}, generation))
    return Version.unpack(bench.shard_manager.owned[0].versions.next())


def test_a_group_made_anew_begins_another_incarnation() -> None:
    bench = Bench(stored_under(Version(0, 57, 9)))
    bench.consumer = Asked(answers=[True])
    first = owned(bench, 1)
    assert (first.incarnation, first.generation) == (1, 1)


def test_a_worker_that_is_out_waits_and_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.worker.takeover.ownership._ASK_AGAIN_S", 0)
    bench = Bench(stored_under(Version(0, 6, 2)))
    bench.consumer = asked = Asked(answers=[False] * 3)

    async def go() -> None:
        restoring = asyncio.ensure_future(bench.own({0}, 5))
        await until(lambda: not asked.answers)
        bench.shard_manager.assigned(set(), 7)  # now it knows
        await restoring

    asyncio.run(go())
    assert bench.shard_manager.owned == {}
    assert bench.store.readback.max_version(0) == Version(0, 6, 2).pack()


def test_rows_that_came_after_the_answer_are_asked_about_again() -> None:
    known, later = Version(0, 57, 9).pack(), Version(0, 58, 1).pack()
    refuse_if_later(0, known, 1, proven=known)
    refuse_if_later(0, known, 57, proven=0)
    with pytest.raises(LaterGenerationError, match="generation 58 of the group, ours is 1"):
        refuse_if_later(0, later, 1, proven=known)
