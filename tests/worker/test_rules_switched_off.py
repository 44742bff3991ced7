"""A rule that is switched off resolves the alerts of jobs that have left memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import cast

from schemas.events import ControlEvent
from schemas.tables import ALERTS, ARCHIVE
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.worker.ingest.ingest import Ingest
from streams.worker.ingest.watermarks import Mark, ReplayWatermarks
from streams.worker.options import ShardManagerOptions
from streams.worker.shards.owned_shard import OwnedShard, Takeover
from streams.worker.shards.ports import LogConsumer
from streams.worker.shards.versions import VersionClock
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover.rehydrate import Rehydrator
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_shard import HOUR_MS, T0, event
from tests.memory_store import MemoryStore

OPTIONS = ShardManagerOptions(topic_prefix="x.", as_of_ms=lambda: 0, now_ms=lambda: 0)
no_consumer = cast("Callable[[], LogConsumer]", lambda: None)
OFF_MS = T0 + 60 * HOUR_MS


class Lab:
    """A shard whose records are appended at their own times, and its store."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.reference = ReferenceLog(controls={b"rule/z": UNPRICED_ON})  # it is off by default
        self.shard = Shard(3, ShardSettings(), self.reference.book)
        self.owned = OwnedShard(3, self.shard, VersionClock(0, 0), Takeover(0, 1))
        self.owned.view = self.reference.view()
        rehydrator = Rehydrator(
            self.store, Checkpointer(self.store, no_consumer, OPTIONS, None), lambda: False
        )
        self.watermarks = ReplayWatermarks()
        self.ingest = Ingest(rehydrator, no_consumer, OPTIONS, self.watermarks, {3: self.owned})
        self.offset, self.version = 0, 0

    def read(self, *events: dict[str, object]) -> None:
        records = [
            LogRecord(self.offset + place, cast("int", each["time_ms"]), json.dumps(each).encode())
            for place, each in enumerate(events)
        ]
        self.offset += len(records)
        self.watermarks.mark = Mark(records[-1].timestamp, {("jobs", 3): self.offset})
        batch = LogBatch("jobs", 3, records[0].offset, self.offset, records)
        asyncio.run(self.ingest.accept(self.owned, batch))

    def checkpoint(self) -> dict[str, str]:
        """The status of the alerts whose rows are stored, by job."""
        self.version += 1
        point = self.shard.checkpoint(self.owned.align.tick_ms or 0, self.version, open_attempts=False)
        for name in {ARCHIVE, ALERTS} & point.tables.keys():
            self.store.insert(name, point.tables[name], f"{name}{self.version}")
        rows = point.tables[ALERTS].to_pylist() if ALERTS in point.tables else []
        return {row["subject_name"]: row["status"] for row in rows if row["rule"] == "unpriced"}

    def switch_off(self, rule: str, **match: object) -> None:
        value = {"enabled": False, **match}
        control = ControlEvent("ops", "1", OFF_MS, "rule", rule, value)
        known = [(OFF_MS, b"rule", control)]
        self.reference.extend([], known, self.reference.book, {**self.reference.controls, b"rule": control})


def archived_and_firing() -> Lab:
    lab = Lab()
    lab.read(
        event("started", gpu_count=8, team="red"),
        event("completed", HOUR_MS),
        event("started", 2 * HOUR_MS, "k"),
    )
    assert lab.checkpoint() == {"j": "firing"}
    lab.read(event("heartbeat", 59 * HOUR_MS, "k"))
    lab.checkpoint()
    lab.read(event("heartbeat", 59 * HOUR_MS + 60_000, "k"))
    lab.checkpoint()
    assert "j" not in lab.shard.jobs
    return lab


def test_an_alert_of_a_job_in_the_archive_is_resolved_and_the_job_goes_back() -> None:
    lab = archived_and_firing()
    lab.switch_off("unpriced")
    lab.read(event("heartbeat", 61 * HOUR_MS, "k"))
    assert lab.checkpoint() == {"j": "resolved"}
    lab.read(event("heartbeat", 61 * HOUR_MS + 60_000, "k"))
    lab.checkpoint()
    assert "j" not in lab.shard.jobs


def test_it_goes_on_where_the_rule_is_off_for_others() -> None:
    lab = archived_and_firing()
    lab.switch_off("unpriced", team="blue")
    lab.read(event("heartbeat", 61 * HOUR_MS, "k"))
    assert lab.checkpoint() == {}


def test_no_job_is_loaded_for_a_rule_by_which_none_fires() -> None:
    lab = archived_and_firing()
    lab.switch_off("retry_loop")
    lab.store.archive.fetch = None  # type: ignore[method-assign,assignment]  # a look into the archive would fail
    lab.read(event("heartbeat", 61 * HOUR_MS, "k"))
    assert "j" not in lab.shard.jobs


def test_an_alert_of_an_archived_job_that_a_former_release_opened_is_resolved() -> None:
    """`unpriced` was on by default: without the record that switches it on, what fires is over."""
    lab = archived_and_firing()
    lab.reference.extend([], [(OFF_MS, b"rule/z", None)], lab.reference.book, {})
    lab.read(event("heartbeat", 61 * HOUR_MS, "k"))
    assert lab.checkpoint() == {"j": "resolved"}
