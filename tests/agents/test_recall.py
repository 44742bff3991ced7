"""Jobs out of the archive, and those that the archive lacks: the shard goes on with them as with new ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import cast

import pytest

from schemas.tables import ARCHIVE
from sinks.memory import MemoryStore
from streams import fallbacks
from streams.agents.checkpointer import Checkpointer
from streams.agents.held import Held, Takeover
from streams.agents.options import KeeperOptions
from streams.agents.ports import LogConsumer
from streams.agents.recall import Recall
from streams.agents.restore import take_as_new
from streams.agents.versions import VersionClock
from streams.pipeline.batch import LogBatch
from streams.pipeline.shard import Shard
from tests.pipeline.test_shard import HOUR_MS, T0, batch, event, shard

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
        self.held = Held(3, self.shard, VersionClock(0, 0), Takeover(0, 1))
        options = KeeperOptions(topic_prefix="x.", as_of_ms=lambda: 0, now_ms=lambda: 0)
        consumer = cast("Callable[[], LogConsumer]", lambda: None)
        self.checkpointer = Checkpointer(self.store, consumer, options, None)
        self.recall = Recall(self.store, self.checkpointer, lambda: False)

    def read(self, news: LogBatch) -> bool:
        return asyncio.run(self.recall.for_batch(self.held, news))


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
            assert asyncio.run(lab.recall.for_rows(lab.held, ["j"]))
    assert fallbacks.counts[fallbacks.NOT_ARCHIVED] == before + 1
    (said,) = [record.getMessage() for record in caplog.records]
    assert "the archive of shard 3 lacks 1 jobs, the first is 'j'" in said
    assert "j" not in lab.shard.jobs
    assert lab.shard.fold(NEWS) is None
    assert lab.shard.jobs["j"].dimensions().owner == "ann"


def test_a_name_in_the_log_is_cut_and_quoted(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab(lost=True)
    take_as_new(lab.shard, 3, {"\x1b[2J" + "x" * 500: 1})
    (record,) = caplog.records
    assert "\x1b" not in record.getMessage()
    assert len(record.getMessage()) < 250


def test_a_row_on_its_way_to_the_store_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab(lost=True)
    tries = 0

    def carries(_held: Held) -> bool:
        nonlocal tries
        tries += 1
        return tries < 3

    monkeypatch.setattr(lab.checkpointer, "carries", carries)  # a flight that lands empty after two looks
    assert lab.read(NEWS)
    assert tries == 3
    assert lab.shard.absent(["j"]) == {}
