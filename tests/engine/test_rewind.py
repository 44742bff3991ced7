"""A shard that judged ticks which had not come goes back, and alerts again."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from schemas.tables import ALERTS, BURN_RATES
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import BOOK, MINUTE_MS, T0, Log

AHEAD_MS = T0 + 120 * MINUTE_MS
NOW_MS = T0 + 2 * MINUTE_MS


def ahead() -> Log:
    """A job without a price runs, and a wrong clock had two hours judged."""
    log = Log(Shard(0, ShardSettings(), PriceBook.empty()))
    log.view = ReferenceLog(controls={b"rule/z": UNPRICED_ON}).view()
    log.add("jobs", T0, type="started", gpu_count=1)
    log.judge(T0, AHEAD_MS)
    stored(log)
    return log


def stored(log: Log) -> dict[str, list[dict[str, Any]]]:
    log.versions += 1
    log.shard.snapshots.compaction.length = 0  # each snapshot whole
    point = log.shard.checkpoint(T0, log.versions, open_attempts=False)
    return {name: table.to_pylist() for name, table in point.tables.items()}


def ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def test_alerts_come_at_ticks_of_now_again() -> None:
    log = ahead()
    log.view = log.view.again()
    log.shard.rewind(NOW_MS)
    assert log.shard.position.tick_ms == NOW_MS
    log.add("jobs", NOW_MS - 1, type="started", gpu_count=1, job_id="k")
    log.judge(NOW_MS, NOW_MS + MINUTE_MS)
    found = stored(log)
    assert [(row["subject_name"], row["status"], ms(row["started"])) for row in found[ALERTS]] == [
        ("k", "firing", NOW_MS)
    ]
    assert {row["job_id"] for row in found[BURN_RATES]} == {"j", "k"}
    assert max(ms(row["time"]) for row in found[BURN_RATES]) == NOW_MS + MINUTE_MS


def test_what_fires_goes_on_and_ends_when_it_is_over() -> None:
    log = ahead()
    priced = ReferenceLog(controls={b"rule/z": UNPRICED_ON})
    priced.extend([(NOW_MS, BOOK.events[0])], [], BOOK, {})
    log.view = priced.view()
    log.shard.rewind(NOW_MS)
    log.judge(NOW_MS, NOW_MS + TICK_MS)
    (row,) = stored(log)[ALERTS]
    assert (row["subject_name"], row["status"], ms(row["started"])) == ("j", "resolved", T0 + TICK_MS)


def test_a_job_that_ended_before_its_time_came_may_fire_at_once() -> None:
    log = ahead()
    log.add("jobs", AHEAD_MS, type="completed")
    log.judge(AHEAD_MS + TICK_MS, AHEAD_MS + TICK_MS)
    stored(log)
    log.view = log.view.again()
    log.shard.rewind(NOW_MS)
    log.judge(NOW_MS, NOW_MS)
    assert ALERTS not in stored(log), "it is the same episode, which the store has as over"
    (job,) = log.shard.tracker.dump().judge.jobs
    assert [rule.cleared_ms <= NOW_MS or rule.open for rule in job.rules] == [True]
