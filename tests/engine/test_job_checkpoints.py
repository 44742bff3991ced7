"""Checkpoints of jobs are rows, one for each event that counts, however the log is cut or taken up again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from schemas.tables import JOB_CHECKPOINTS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard

T0 = 1_780_308_000_000
MINUTE = 60_000


def record(offset: int, kind: str, minute: int, event_id: str = "", **fields: Any) -> LogRecord:
    about = {"source": "sdk", "id": event_id or f"e{offset}", "job_id": "run-1", "type": kind, **fields}
    time_ms = T0 + minute * MINUTE
    return LogRecord(offset, time_ms, json.dumps({**about, "time_ms": time_ms}).encode())


LOG = [
    record(0, "started", 0, gpu_count=8),
    record(1, "checkpointed", 10, duration_ms=42_000),
    record(2, "checkpointed", 10, "e1", duration_ms=7),  # the same event again
    record(3, "checkpointed", 20),
    record(4, "heartbeat", 21, duration_ms=5),  # of no checkpoint
    record(5, "checkpointed", 30, duration_ms=-1),  # refused
    record(6, "checkpointed", 40, attempt=2, duration_ms=0),
]
ROWS = [(1, 10, 42_000), (1, 20, None), (2, 40, 0)]


def fold(shard: Shard, records: list[LogRecord]) -> None:
    shard.fold(LogBatch("jobs", 0, records[0].offset, records[-1].offset + 1, records))


def stored(shard: Shard, version: int, *, rows_only: bool = False) -> list[tuple[int, int, int | None]]:
    point = shard.checkpoint(T0 + 60 * MINUTE, version, open_attempts=False, rows_only=rows_only)
    table = point.tables.get(JOB_CHECKPOINTS)
    rows = [] if table is None else table.to_pylist()
    assert {(row["job_id"], row["source"], row["version"]) for row in rows} <= {("run-1", "sdk", version)}
    return [
        (row["attempt"], int(row["time"].timestamp() * 1000 - T0) // MINUTE, row["duration_ms"])
        for row in rows
    ]


def new() -> Shard:
    return Shard(0, ShardSettings(), PriceBook.empty())


@pytest.mark.parametrize("cut", range(1, len(LOG)))
def test_each_checkpoint_is_stored_once(cut: int) -> None:
    shard = new()
    fold(shard, LOG[:cut])
    first = stored(shard, 1)
    fold(shard, LOG[cut:])
    assert first + stored(shard, 2) == ROWS
    assert stored(shard, 3) == []
    assert not shard.unsaved(T0, open_attempts=False)


@pytest.mark.parametrize("cut", range(1, len(LOG)))
def test_a_shard_that_was_restored_writes_the_rest(cut: int) -> None:
    shard = new()
    fold(shard, LOG[:cut])
    snapshot = shard.checkpoint(T0, 1, open_attempts=False).snapshot
    again = Shard.restore(0, ShardSettings(), PriceBook.empty(), [snapshot])
    fold(again, LOG[cut:])
    assert stored(again, 2) == [row for offset, row in zip((1, 3, 6), ROWS, strict=True) if offset >= cut]


@pytest.mark.parametrize("is_last", [False, True])
def test_they_wait_for_a_snapshot_or_for_the_last_checkpoint(is_last: bool) -> None:
    shard = new()
    fold(shard, LOG[:1])
    assert stored(shard, 1) == []
    fold(shard, LOG[1:])
    assert stored(shard, 2, rows_only=True) == []
    assert shard.unsaved(T0, open_attempts=False)
    if is_last:
        shard.owe_books()
    assert stored(shard, 3, rows_only=is_last) == ROWS


def test_the_duration_is_no_part_of_the_state() -> None:
    shard = new()
    fold(shard, LOG)
    events = [event for attempt in shard.jobs["run-1"].attempts.values() for event in attempt.events]
    assert {event.duration_ms for event in events} == {None}
