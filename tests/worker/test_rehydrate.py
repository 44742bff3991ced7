"""Jobs out of the archive, and those that the archive lacks: the shard goes on with them as with new ones."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import cast

import pytest

from schemas.tables import ARCHIVE, JOB_MINUTES
from sinks.errors import SinkBusy
from streams import fallbacks
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import LogConsumer
from streams.worker.shards.versions import VersionClock
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover.fence import fence_late_rows
from streams.worker.takeover.rehydrate import Rehydrator
from streams.worker.takeover.restore import Attempts, restore, restore_as_new
from tests.engine.test_shard import HOUR_MS, T0, batch, event, shard
from tests.logged import events, logged
from tests.memory_store import MemoryStore

OPTIONS = ShardManagerOptions(topic_prefix="x.", as_of_ms=lambda: 0, now_ms=lambda: 0)
no_consumer = cast("Callable[[], LogConsumer]", lambda: None)
NEWS = batch(event("updated", 30 * HOUR_MS, owner="ann"), first=3)


class Lab:
    """A shard of which job j has left memory; its row may be lost."""

    def __init__(self, *, lost: bool) -> None:
        self.store = MemoryStore()
        self.shard: Shard = shard()
        self.shard.fold(
            batch(event("started"), event("completed", HOUR_MS), event("started", 30 * HOUR_MS, "k"))
        )
        point = self.shard.checkpoint(T0, 1, open_attempts=True)
        if not lost:
            self.store.insert(ARCHIVE, point.tables[ARCHIVE], "t")
        self.owned = OwnedShard(3, self.shard, VersionClock(0, 0), Takeover(0, 1))
        self.checkpointer = Checkpointer(self.store, no_consumer, OPTIONS, None)
        self.rehydrator = Rehydrator(self.store, self.checkpointer, lambda: False)

    def read(self, news: LogBatch) -> bool:
        return asyncio.run(self.rehydrator.for_batch(self.owned, news))


def test_a_job_comes_back_as_it_was() -> None:
    lab = Lab(lost=False)
    assert lab.read(NEWS)
    assert lab.shard.jobs["j"].attempts[1].events


@pytest.mark.parametrize("way", ["batch", "rows"])
def test_what_the_archive_lacks_is_a_new_job_counted_and_said(
    way: str, caplog: pytest.LogCaptureFixture
) -> None:
    lab = Lab(lost=True)
    before = fallbacks.counts[fallbacks.NOT_ARCHIVED]
    with caplog.at_level(logging.WARNING):
        if way == "batch":
            assert lab.read(NEWS)
        else:
            assert asyncio.run(lab.rehydrator.for_rows(lab.owned, ["j"]))
    assert fallbacks.counts[fallbacks.NOT_ARCHIVED] == before + 1
    ((_, said),) = events(caplog.records)
    assert said == {"shard": 3, "jobs": 1, "first_job_id": "j"}
    assert "j" not in lab.shard.jobs
    assert lab.shard.fold(NEWS) is None
    assert lab.shard.jobs["j"].dimensions().owner == "ann"


def test_a_name_in_the_log_is_cut_and_quoted(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(lost=True)
    restore_as_new(lab.shard, 3, {"\x1b[2J" + "x" * 500: 1})
    assert len(caplog.records) == 1
    assert "\x1b" not in logged(caplog)
    assert len(logged(caplog)) < 400


def test_a_row_on_its_way_to_the_store_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(lost=True)
    tries = 0

    def carries(_owned: OwnedShard) -> bool:
        nonlocal tries
        tries += 1
        return tries < 3

    monkeypatch.setattr(lab.checkpointer, "carries", carries)  # a flight that lands empty after two looks
    assert lab.read(NEWS)
    assert tries == 3
    assert lab.shard.absent(["j"]) == {}


def test_a_life_that_restored_in_many_attempts_shares_no_version_with_the_next_one() -> None:
    """A static member comes back in its generation: what its former process sends last lands under the lower version."""

    def version(now_ms: int, failures: int) -> int:
        failing = iter([True] * failures)

        def factory(*_: object) -> Shard:
            if next(failing, False):
                raise SinkBusy("not answered", 10)
            return shard()

        attempts = Attempts(3, 5, PriceBook.empty(), now_ms)
        for _ in range(failures):
            with pytest.raises(SinkBusy):
                restore(store, factory, store.insert, attempts)
        return restore(store, factory, store.insert, attempts).owned.versions.next()

    store = MemoryStore()
    assert version(T0, failures=20) < version(T0 + 3_000, failures=0)


def test_what_was_booked_of_a_lost_job_stays_as_it_is() -> None:
    """Its rows are read back when an owner follows one that had not swept, and once more by the sweep."""
    store, one = MemoryStore(), shard()
    one.snapshots.unswept_from = 0
    one.fold(
        batch(event("started", gpu_count=1), event("completed", HOUR_MS), event("started", 30 * HOUR_MS, "k"))
    )
    point = one.checkpoint(T0 + 31 * HOUR_MS, 1, open_attempts=True)
    assert one.absent(["j"]) == {"j": 1}
    store.insert(JOB_MINUTES, point.tables[JOB_MINUTES], "rows")  # what there was of `archive` is lost
    store.snapshots.save(3, 1, 0, point.snapshot)
    restored = restore(
        store,
        lambda number, book, blobs: Shard.restore(number, ShardSettings(), book, blobs),
        store.insert,
        Attempts(3, 0, PriceBook.empty(), 0),
    )
    checkpointer = Checkpointer(store, no_consumer, OPTIONS, None)
    asyncio.run(fence_late_rows(store, Rehydrator(store, checkpointer, lambda: False), restored.owned))
    rows = [row for row in store.select(JOB_MINUTES).to_pylist() if row["job_id"] == "j"]
    assert sum(row["quantity"] for row in rows) == HOUR_MS * 1000
    assert restored.owned.shard.snapshots.unswept_from is None


def test_lost_jobs_of_many_threads_are_all_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    class Torn(Counter[str]):
        """Another thread has its turn between the look and the writing."""

        def __getitem__(self, what: str) -> int:
            count = super().__getitem__(what)
            time.sleep(0.01)
            return count

    monkeypatch.setattr(fallbacks, "counts", Torn())
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda number: restore_as_new(shard(), number, {"j": 1}), range(8)))
    assert dict(fallbacks.counts) == {fallbacks.NOT_ARCHIVED: 8}
