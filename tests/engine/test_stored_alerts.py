"""Alerts that an earlier owner of a shard stored, and a later one, whose snapshot is older, judges again."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import ALERTS
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import BOOK, MINUTE_MS, T0, Log

EMPTY = PriceBook.empty()
OPENED_MS, RESOLVED_MS = T0 + TICK_MS, T0 + MINUTE_MS


def owner(snapshot: bytes | None = None) -> Log:
    """A shard in which a job runs without a price, until one is loaded after a minute."""
    shard = Shard(0, ShardSettings(), EMPTY)
    log = Log(shard if snapshot is None else Shard.restore(0, ShardSettings(), EMPTY, [snapshot]))
    reference = ReferenceLog(EMPTY, controls={b"rule/z": UNPRICED_ON})
    reference.extend([(RESOLVED_MS, BOOK.events[0])], [], BOOK, {})
    log.view = reference.view()
    return log


def stored(log: Log) -> tuple[pa.Table | None, bytes]:
    """The rows of alerts of a checkpoint, and its snapshot."""
    log.versions += 1
    log.shard.snapshots.compaction.length = 0  # each snapshot whole
    point = log.shard.checkpoint(T0, log.versions, open_attempts=False)
    return point.tables.get(ALERTS), point.snapshot


def words(table: pa.Table | None) -> list[tuple[Any, ...]]:
    rows = [] if table is None else table.to_pylist()
    return [(row["status"], round(row["held"].timestamp() * 1000) - T0) for row in rows]


def test_an_owner_with_an_older_snapshot_does_not_open_again_what_is_stored_as_over() -> None:
    first = owner()
    first.add("jobs", T0, type="started", gpu_count=1)
    _, early = stored(first)
    first.judge(T0, RESOLVED_MS + TICK_MS)
    over, _ = stored(first)
    assert words(over) == [("resolved", RESOLVED_MS - T0 - TICK_MS)]

    second = owner(early)
    assert second.shard.read_back(ALERTS, over, 7).num_rows == 0
    second.judge(T0, T0 + 3 * TICK_MS)
    assert not second.shard.alerts_changed
    rows, halfway = stored(second)
    assert words(rows) == []

    third = owner(halfway)  # which finds nothing above the version of its snapshot
    assert over is not None
    (alert_id,) = over["alert_id"].to_pylist()
    assert third.shard.tracker.alerts.dump() == {alert_id: RESOLVED_MS}
    third.judge(T0 + 4 * TICK_MS, RESOLVED_MS - TICK_MS)
    assert words(stored(third)[0]) == []
    third.judge(RESOLVED_MS, RESOLVED_MS + TICK_MS)
    assert words(stored(third)[0]) == words(over)


def test_without_a_row_in_the_store_it_is_opened_at_once() -> None:
    first = owner()
    first.add("jobs", T0, type="started", gpu_count=1)
    again = owner(stored(first)[1])
    again.judge(T0, T0 + 3 * TICK_MS)
    assert words(stored(again)[0]) == [("firing", TICK_MS)]


@pytest.mark.parametrize("leaves", [False, True])
def test_a_row_says_why_by_what_was_known_at_its_tick_whenever_it_is_stored(leaves: bool) -> None:
    """A job grew to 8 GPUs; a record that comes after the tick says that it has had 5 of them for a while."""
    found: list[list[str]] = []
    for is_stored_at_once in (True, False):
        log = Log()
        log.add("jobs", T0, type="started", gpu_count=1)
        log.add("jobs", T0 + 70 * MINUTE_MS, type="scaled", gpu_count=8)
        log.judge(T0, T0 + 90 * MINUTE_MS)
        log.judge(T0 + 90 * MINUTE_MS + TICK_MS, T0 + 100 * MINUTE_MS)
        rows = stored(log)[0] if is_stored_at_once else None
        if leaves:
            log.shard.tracker.leave("j")
            del log.shard.jobs["j"]
        else:
            log.add("jobs", T0 + 90 * MINUTE_MS, type="scaled", gpu_count=5)
            log.judge(T0 + 100 * MINUTE_MS + TICK_MS, T0 + 100 * MINUTE_MS + TICK_MS)
        if rows is None:
            rows = log.shard.tracker.tables(0, 9)[ALERTS]
        found.append(sorted(row["summary"] for row in rows.to_pylist() if row["rule"].startswith("burn_")))
    assert found[0] == found[1]
    assert any("8 GPUs since" in summary for summary in found[0])
