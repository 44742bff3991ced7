"""GPU-time without a price of a metered job that has left all windows, when something comes of it again."""

from __future__ import annotations

from schemas.events import Component, PriceEvent
from schemas.tables import ALERTS
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import BOOK, HOUR_MS, MINUTE_MS, T0, Log

A_ONLY = PriceBook.empty().with_events(
    [PriceEvent("s", "a", 0, "a100", Component.gpu, 10**9, Per.gpu_hour, 1, 0, {"gpu_type": "A100"})]
)
ALL = A_ONLY.with_events(BOOK.events)
LEFT_MS = T0 + 9 * HOUR_MS
PRICED_MS = LEFT_MS + MINUTE_MS
SAMPLE = {"node": "n", "interval_ms": 10_000, "gpus": ["0"], "util_ratio": [0.5]}


def metered() -> Log:
    """A job whose second sample has no price, judged until its curve is gone; one is known from PRICED_MS on."""
    log = Log(Shard(0, ShardSettings(), A_ONLY))
    reference = ReferenceLog(A_ONLY, controls={b"rule/z": UNPRICED_ON})
    reference.extend([(PRICED_MS, BOOK.events[0])], [], ALL, {})
    log.view = reference.view()
    log.add("gpu", T0 + 30_000, gpu_type="A100", **SAMPLE)
    log.add("gpu", T0 + 3 * MINUTE_MS, **SAMPLE)
    log.judge(T0 + 4 * MINUTE_MS, LEFT_MS)
    assert log.shard.tracker.jobs_live == 0
    return log


def resolved_ms(log: Log) -> tuple[int, int]:
    """When the alert was resolved, and the last instant at which it held."""
    log.add("network", LEFT_MS, interval_ms=MINUTE_MS, bytes=0, direction="egress", path="internet")
    assert log.shard.books.dead_lettered == 0
    log.judge(LEFT_MS + TICK_MS, PRICED_MS + MINUTE_MS)
    (row,) = log.shard.tracker.tables(0, 1)[ALERTS].to_pylist()
    assert row["status"] == "resolved"
    return round(row["resolved"].timestamp() * 1000), round(row["held"].timestamp() * 1000)


def test_it_has_no_price_though_the_ledger_was_never_derived() -> None:
    assert resolved_ms(metered()) == (PRICED_MS, PRICED_MS - TICK_MS)


def test_it_has_no_price_at_a_tick_though_the_ledger_knows_a_later_one() -> None:
    log = metered()
    log.shard.set_prices(ALL)
    log.versions += 1
    point = log.shard.checkpoint(LEFT_MS, log.versions, open_attempts=False)
    assert [row["sku"] for row in point.tables["job_minutes"].to_pylist()] == ["a100", "h100"]
    assert resolved_ms(log) == (PRICED_MS, PRICED_MS - TICK_MS)
