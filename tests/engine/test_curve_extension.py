"""A metered curve that is prolonged at its end comes to what it comes to when all of it is built anew."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.engine.burn.curve_extension import CurveExtension
from streams.engine.burn.job_curve import JobCurve
from streams.engine.kernels.arrays import I64
from streams.engine.kernels.episode import UNPRICED
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from streams.engine.windows.figures import WindowFigures
from tests.engine.test_burn_tracker import BOOK, HOUR_MS, MINUTE_MS, T0, Log

GPUS = ["a", "b", "c"]


def price(sku: str, usd: int, effective_ms: int, **match: str) -> PriceEvent:
    return PriceEvent("s", sku, 0, sku, Component.gpu, usd * 10**9, Per.gpu_hour, 1, effective_ms, match)


#: Half a minute into the second hour, and in the middle of a second.
DEARER = price("h100", 3, T0 + HOUR_MS + 30_500)
CHEAP = price("cheap", 1, 0, gpu_type="L4")


class Twin:
    """One shard that prolongs and one that never does."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, book: PriceBook = BOOK) -> None:
        self.book = book
        self.logs = [Log(Shard(0, ShardSettings(), book)), Log(Shard(0, ShardSettings(), book))]
        self.price()
        self.taken = 0
        self.plain = False
        twin, take, whole = self, CurveExtension._add_minutes, JobCurve.build_whole_tail

        def counted(tails: CurveExtension, *args: Any) -> bool:
            taken = not twin.plain and take(tails, *args)
            twin.taken += taken
            return taken

        monkeypatch.setattr(CurveExtension, "_add_minutes", counted)
        monkeypatch.setattr(JobCurve, "build_whole_tail", lambda *a: not twin.plain and whole(*a))

    def add(self, topic: str, at_ms: int, **event: Any) -> None:
        for log in self.logs:
            log.add(topic, at_ms, **event)

    def sample(self, at_ms: int, gpus: list[str], interval_ms: int = 1000, **event: Any) -> None:
        self.add(
            "gpu", at_ms, interval_ms=interval_ms, gpus=gpus, util_ratio=[0.5] * len(gpus), node="n", **event
        )

    def judge(self, at_ms: int) -> None:
        for log in self.logs:
            self.plain = log is self.logs[1]
            log.judge(at_ms, at_ms)
        assert self.logs[0].shard.tracker.job_ids == self.logs[1].shard.tracker.job_ids
        ticks: I64 = at_ms + TICK_MS * np.arange(0, 40, 7)
        found, expected = (log.shard.tracker._curves.figures(ticks) for log in self.logs)
        same(found, expected)

    def price(self, *events: PriceEvent) -> None:
        self.book = self.book.with_events(events)
        for log in self.logs:
            log.shard.set_prices(self.book)
            log.view = ReferenceLog(self.book).view()


def same(found: WindowFigures, expected: WindowFigures) -> None:
    for name in WindowFigures._fields:
        one: Any = getattr(found, name)
        other: Any = getattr(expected, name)
        if name in ("cost_nano", "expected_nano"):
            np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-3, err_msg=name)
        else:
            np.testing.assert_array_equal(one, other, err_msg=name)


def test_steady_samples_are_prolonged_from_the_first_tick_on(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(monkeypatch)
    for second in range(1, 241):
        twin.sample(T0 + second * 1000, GPUS)
        if second % 10 == 0:
            twin.judge(T0 + second * 1000)
    assert twin.taken == 24


@pytest.mark.parametrize("seed", range(6))
def test_gaps_late_samples_nodes_and_other_prices_come_to_the_same(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    draw = random.Random(seed)
    twin = Twin(monkeypatch, BOOK.with_events([CHEAP]) if seed % 2 else BOOK)
    now_ms = T0
    for _ in range(60):
        now_ms += draw.choice((10_000, 10_000, 20_000, 60_000, 300_000))
        for _ in range(draw.randrange(4)):
            at_ms = now_ms - draw.choice((0, 0, 3000, 61_500, 500_000))
            twin.sample(
                at_ms,
                draw.sample(GPUS, draw.randint(1, 3)),
                draw.choice((1000, 10_000, 45_000)),
                **({"gpu_type": "L4"} if draw.random() < 0.1 else {}),
            )
        if draw.random() < 0.03:
            twin.add("network", now_ms, interval_ms=1000, bytes=10**9, path="internet", direction="egress")
        if draw.random() < 0.05:
            twin.sample(now_ms, ["a"], attempt=2)
        if draw.random() < 0.03:
            twin.add("jobs", now_ms, type="updated", expected_usd_per_hour="5")
        if draw.random() < 0.03:
            twin.price(price("h100", draw.randint(1, 9), now_ms - draw.randrange(600_000)))
        if draw.random() < 0.01:
            twin.add("jobs", now_ms, type="started", gpu_count=2)
        twin.judge(now_ms)
    assert twin.taken


def test_a_price_that_changes_within_a_minute_is_part_of_the_tail(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(monkeypatch, BOOK.with_events([DEARER]))
    start_ms = T0 + HOUR_MS - MINUTE_MS
    for second in range(10, 181, 10):
        twin.sample(start_ms + second * 1000, GPUS, 10_000)
        twin.judge(start_ms + second * 1000)
    assert twin.taken == 18
    log = twin.logs[0]
    figures = log.shard.tracker._curves.figures(np.array([start_ms + 180_000]))
    expected = 3 * (90.5 * 2 + 89.5 * 3) / 3600 * 1e9
    assert figures.cost_nano[0, 0, 0] == pytest.approx(expected, rel=1e-12)


def test_samples_without_a_price_go_the_general_way(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(monkeypatch, PriceBook.empty().with_events([CHEAP]))
    twin.sample(T0 + 10_000, GPUS, 10_000)
    twin.judge(T0 + 10_000)
    assert twin.taken == 0
    assert twin.logs[0].shard.tracker._curves.figures(np.array([T0 + 20_000])).facts.tolist() == [
        [1 << UNPRICED]
    ]
    twin.sample(T0 + 70_000, GPUS, 10_000, gpu_type="L4")
    twin.judge(T0 + 70_000)
    assert twin.taken == 0
    twin.price(price("h100", 2, 0))
    twin.judge(T0 + 80_000)
    assert twin.taken == 1


def test_detail_of_long_ago_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(monkeypatch)
    at_ms = T0
    for minute in range(9 * 60):
        at_ms = T0 + minute * MINUTE_MS
        twin.sample(at_ms, GPUS, 10_000)
        if minute % 20 == 0:
            twin.judge(at_ms)
    steps = [len(log.shard.tracker._curves._steps.rows) for log in twin.logs]
    assert steps[0] < 2 * 8 * 60 * 1.5 * 1.5
    assert twin.taken == 27


def test_a_job_whose_samples_end_is_forgotten_once_nothing_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    twin = Twin(monkeypatch)
    for minute in range(3):
        twin.sample(T0 + minute * MINUTE_MS, GPUS, 10_000)
        twin.judge(T0 + minute * MINUTE_MS)
    assert twin.logs[0].shard.tracker.jobs_live == 1
    last_ms = T0 + 2 * MINUTE_MS
    twin.judge(last_ms + 6 * HOUR_MS + 20 * MINUTE_MS - TICK_MS)
    assert twin.logs[0].shard.tracker.jobs_live == 1
    twin.judge(last_ms + 6 * HOUR_MS + 22 * MINUTE_MS)
    assert twin.logs[0].shard.tracker.jobs_live == 0
