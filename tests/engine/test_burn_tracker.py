"""What a shard remembers of its ticks, and what it forgets."""

from __future__ import annotations

import gc
import json
import weakref
from typing import Any

import pytest

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.tables import BURN_RATES
from schemas.units import Per
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.burn.job_curve import JobCurve
from streams.engine.kernels.arrays import I64
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS, Ticks
from streams.engine.shard.shard import Shard
from streams.engine.windows.curves import CurveBook
from streams.engine.windows.figures import WindowFigures
from tests.engine.alerts.scene import UNPRICED_ON

T0 = 1_790_000_000_000 // 60_000 * 60_000
MINUTE_MS = 60_000
HOUR_MS = 3_600_000
BOOK = PriceBook.empty().with_events(
    [PriceEvent("s", "p", 0, "h100", Component.gpu, 2 * 10**9, Per.gpu_hour, 1, 0, {})]
)


class Log:
    """One shard, fed by hand."""

    def __init__(self, shard: Shard | None = None) -> None:
        self.shard = shard or Shard(0, ShardSettings(), BOOK)
        self.view = ReferenceLog(BOOK, {b"rule/z": UNPRICED_ON}).view()
        self.offsets: dict[str, int] = dict(self.shard.position.next)
        self.versions = self.shard.snapshots.version

    def add(self, topic: str, at_ms: int, **event: Any) -> None:
        offset = self.offsets.get(topic, 0)
        self.offsets[topic] = offset + 1
        value = {"source": "t", "id": f"{topic}{offset}", "time_ms": at_ms, "job_id": "j", **event}
        record = LogRecord(offset, at_ms, json.dumps(value).encode())
        assert self.shard.fold(LogBatch(topic, 0, offset, offset + 1, [record])) is None

    def judge(self, first_ms: int, last_ms: int) -> None:
        self.shard.judge(Ticks(first_ms, last_ms), self.view)

    def rates(self) -> list[tuple[int, float]]:
        """(minute since T0, dollars per hour now) of the rows that wait."""
        self.versions += 1
        table = self.shard.checkpoint(T0, self.versions, open_attempts=False).tables.get(BURN_RATES)
        rows = [] if table is None else table.to_pylist()
        return [
            ((round(row["time"].timestamp() * 1000) - T0) // MINUTE_MS, float(row["usd_per_hour_now"]))
            for row in rows
        ]


def test_a_restored_shard_goes_on_at_its_next_tick() -> None:
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0 + 5 * MINUTE_MS)
    assert log.rates() == [(minute, 16.0) for minute in range(6)]
    point = log.shard.checkpoint(T0, 99, open_attempts=False)
    # An idle log: nothing but the tick itself says where to go on.
    restored = Shard.restore(0, ShardSettings(), BOOK, [point.snapshot] if point.parent == 0 else [])
    assert (log.shard.position.tick_ms, point.parent == 0) == (T0 + 5 * MINUTE_MS + TICK_MS, False)
    assert restored.position.tick_ms is None

    fresh = Log()
    fresh.add("jobs", T0, type="started", gpu_count=8)
    fresh.judge(T0, T0 + 5 * MINUTE_MS)
    base = fresh.shard.checkpoint(T0, 1, open_attempts=False)
    again = Log(Shard.restore(0, ShardSettings(), BOOK, [base.snapshot]))
    assert again.shard.position.tick_ms == T0 + 5 * MINUTE_MS + TICK_MS
    again.judge(T0 + 5 * MINUTE_MS + TICK_MS, T0 + 6 * MINUTE_MS)
    assert again.rates() == [(5, 16.0), (6, 16.0)]  # what the last row said is not known any more


def test_a_change_is_shown_before_the_next_tick_only_if_somebody_looks() -> None:
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0)
    log.rates()
    log.add("jobs", T0 + 2_000, type="scaled", gpu_count=16)
    assert log.rates() == []
    log.shard.write_interim_rates(T0 + 3_000, log.view)
    assert log.rates() == [(0, 32.0)]
    log.shard.write_interim_rates(T0 + 4_000, log.view)
    assert log.rates() == []


@pytest.mark.parametrize(
    ("interval_ms", "at_ms"), [(1_000, TICK_MS - 1_500), (TICK_MS - 1, TICK_MS - 1_500), (TICK_MS, 8_000)]
)
def test_before_a_tick_amounts_are_read_and_the_tick_gives_the_same(interval_ms: int, at_ms: int) -> None:
    """At once if the next ones are expected after the tick, else shortly before it."""
    egress = PriceEvent("s", "e", 1, "egress", Component.network, 10**9, Per.gb, 1, 0, {})
    book = BOOK.with_events([egress])
    logs = Log(), Log()
    for log in logs:
        log.view = ReferenceLog(book).view()
        log.add("jobs", T0, type="started", gpu_count=8)
        log.judge(T0, T0)
        log.rates()
        amounts = {"interval_ms": interval_ms, "path": "internet", "direction": "egress", "bytes": 10**13}
        log.add("network", T0 + 8_000, **amounts)
    early, late = logs
    tracker = early.shard.tracker

    def is_built() -> bool:
        return tracker.minutes("j", T0 // MINUTE_MS, 1, book) is not None

    early.shard.write_interim_rates(T0 + min(at_ms, TICK_MS - 1_501), early.view)
    assert is_built() == (at_ms < TICK_MS - 1_501)
    early.shard.write_interim_rates(T0 + at_ms, early.view)
    assert (is_built(), early.rates()) == (True, [])
    assert tracker.awaits("j", book)  # no tick has judged it yet, so it must not be archived
    early.add("network", T0 + 9_000, **amounts)
    late.add("network", T0 + 9_000, **amounts)
    assert not is_built()
    rows = []
    for log in logs:
        log.judge(T0 + TICK_MS, T0 + 2 * MINUTE_MS)
        table = log.shard.checkpoint(T0, 99, open_attempts=False).tables[BURN_RATES]
        rows.append(table.to_pylist())
    assert rows[0] == rows[1]
    assert max(float(row["usd_per_hour_15m"]) for row in rows[0]) > 16.0


def test_a_dropped_shard_is_freed_without_a_collection() -> None:
    """Of a worker, survivors of a full collection are looked at again after hours only."""
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0 + MINUTE_MS)
    log.rates()
    gone = weakref.ref(log.shard), weakref.ref(log.shard.tracker)
    gc.disable()
    try:
        del log
        assert [ref() for ref in gone] == [None, None]
    finally:
        gc.enable()


def test_a_look_of_a_shard_that_is_behind_tells_nothing_and_its_ticks_do_not_learn_what_came_later() -> None:
    log = Log()
    reference = ReferenceLog(BOOK)
    dearer = PriceEvent("s", "q", 1, "h100", Component.gpu, 5 * 10**9, Per.gpu_hour, 1, 1, {})
    reference.extend([(T0 + 30 * MINUTE_MS, dearer)], [], BOOK.with_events([dearer]), {})
    log.view = reference.view()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0)
    log.rates()
    log.add("jobs", T0 + 2_000, type="scaled", gpu_count=16)
    log.shard.write_interim_rates(T0 + HOUR_MS, log.view)  # the worker was away for an hour
    assert log.rates() == []
    log.judge(T0 + TICK_MS, T0 + MINUTE_MS)
    assert log.rates() == [(0, 32.0), (1, 32.0)]


@pytest.mark.parametrize("back_to_ms", [T0 + 2_500, T0 - 1, T0 - HOUR_MS])
def test_a_clock_that_is_set_back_makes_no_look_fail(back_to_ms: int) -> None:
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0)
    log.rates()
    log.add("jobs", T0 + 2_000, type="scaled", gpu_count=16)
    log.shard.write_interim_rates(T0 + 3_000, log.view)
    log.add("jobs", T0 + 2_000, type="scaled", gpu_count=32)
    log.shard.write_interim_rates(back_to_ms, log.view)
    assert log.rates() == [(0, 32.0)]
    log.judge(T0 + TICK_MS, T0 + TICK_MS)
    assert log.rates() == [(0, 64.0)]


def test_samples_of_a_job_that_its_timeline_pays_for_touch_nothing() -> None:
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0)
    log.rates()
    sample = {"node": "n", "interval_ms": 1_000, "gpus": ["0"], "util_ratio": [0.5]}
    log.add("gpu", T0 + 5_000, **sample)
    assert (log.shard.due.dirty_jobs, log.shard.due.sampled_jobs) == (set(), {"j"})
    assert not log.shard.tracker.is_due
    # That it was seen is kept through a restart, and written with the next rows of jobs that go on.
    base = log.shard.checkpoint(T0, 500, open_attempts=False)
    assert "jobs" not in base.tables
    assert log.shard.unsaved(T0, open_attempts=True)
    rows = log.shard.checkpoint(T0 + 5_000, 501, open_attempts=True).tables["jobs"].to_pylist()
    assert round(rows[0]["last_event"].timestamp() * 1000) == T0 + 5_000
    assert log.shard.due.sampled_jobs == set()


@pytest.mark.parametrize(("kind", "touched"), [("silence", 0), ("owner", 0), ("planned", 1), ("rule", 1)])
def test_a_control_updates_jobs_only_if_their_curves_or_settings_depend_on_it(
    kind: str, touched: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    value: dict[str, dict[str, object]] = {
        "silence": {"team": "t"},
        "owner": {"webhook": "https://hooks.example.com/me"},
        "planned": {"team": "t", "usd_per_hour": "1"},
        "rule": {"rule": "burn_fast", "severity": "ticket"},
    }
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.judge(T0, T0)
    control = ControlEvent("s", "c", T0, kind, "c", value[kind])
    log.view = ReferenceLog(BOOK, {b"rule/z": UNPRICED_ON, b"c": control}).view()
    updated: list[str] = []
    monkeypatch.setattr(JobCurve, "mark_read", lambda _curve, job, _controls: updated.append(job.id))
    log.judge(T0 + TICK_MS, T0 + TICK_MS)
    assert updated == ["j"] * touched


@pytest.mark.parametrize("hours", [7, 24 * 180])
def test_a_job_that_ended_is_forgotten_when_nothing_is_left_of_it(hours: int) -> None:
    log = Log()
    log.add("jobs", T0, type="started", gpu_count=8)
    log.add("jobs", T0 + 10 * MINUTE_MS, type="completed")
    log.judge(T0, T0 + HOUR_MS)
    assert log.shard.tracker.jobs_live == 1
    log.judge(T0 + HOUR_MS + TICK_MS, T0 + hours * HOUR_MS)
    assert log.shard.tracker.jobs_live == 0
    assert log.rates()[-1][1] == 0.0


def test_jobs_that_leave_the_windows_one_after_another_cost_no_call_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def judged(minutes: int) -> list[tuple[int, float]]:
        """The rows of twenty jobs, if so many minutes are judged at once."""
        log = Log()
        for number in range(20):
            log.add("jobs", T0, job_id=f"j{number}", type="started", gpu_count=1)
            log.add("jobs", T0 + (number + 1) * MINUTE_MS, job_id=f"j{number}", type="completed")
        figures = CurveBook.figures

        def counted(book: CurveBook, times_ms: I64) -> WindowFigures:
            calls.append(len(times_ms))
            return figures(book, times_ms)

        with monkeypatch.context() as patched:
            patched.setattr(CurveBook, "figures", counted)
            end_ms = T0 + 10 * HOUR_MS
            for first_ms in range(T0, end_ms, minutes * MINUTE_MS):
                log.judge(first_ms, min(first_ms + minutes * MINUTE_MS, end_ms) - TICK_MS)
        assert log.shard.tracker.jobs_live == 0
        return sorted(log.rates())

    at_once = judged(10 * 60)
    assert len(calls) <= 3  # not one for each job that leaves
    assert at_once == judged(1)


def leaves(log: Log) -> bool:
    """Whether job j is in the archive after a checkpoint."""
    log.versions += 1
    log.shard.checkpoint(T0, log.versions, open_attempts=False)
    return "j" not in log.shard.jobs


def test_a_job_leaves_for_the_archive_only_after_a_tick_has_seen_it() -> None:
    log = Log(Shard(0, ShardSettings(job_horizon_ms=HOUR_MS), BOOK))
    log.shard.position.tick_ms = T0
    log.add("jobs", T0 - 5 * HOUR_MS, type="started", gpu_count=1)
    log.add("jobs", T0 - 4 * HOUR_MS, type="completed")
    assert not leaves(log)
    log.add("nodes", T0, node="n", type="ready", gpu_count=1)
    assert not leaves(log)
    log.judge(T0, T0)
    log.add("nodes", T0 + HOUR_MS, node="n", type="draining")
    assert leaves(log)


def test_a_job_whose_alert_a_new_price_may_end_stays_until_a_tick_has_seen_the_price() -> None:
    empty = PriceBook.empty()
    log = Log(Shard(0, ShardSettings(job_horizon_ms=HOUR_MS), empty))
    reference = ReferenceLog(empty)
    log.view = reference.view()
    log.add("jobs", T0 - 5 * HOUR_MS, type="started", gpu_count=1)
    log.judge(T0 - 5 * HOUR_MS + TICK_MS, T0 - 5 * HOUR_MS + TICK_MS)  # no price: an alert
    log.add("jobs", T0 - 4 * HOUR_MS, type="completed")
    log.judge(T0 - 4 * HOUR_MS, T0 - 4 * HOUR_MS)
    reference.extend([(T0 + MINUTE_MS, BOOK.events[0])], [], BOOK, {})
    log.shard.set_prices(BOOK)
    log.versions += 1
    log.shard.checkpoint(T0, log.versions, open_attempts=False)  # what the price changes is stored
    log.add("nodes", T0, node="n", type="ready", gpu_count=1)
    assert not leaves(log)
    log.judge(T0 + 2 * MINUTE_MS, T0 + 2 * MINUTE_MS)
    log.add("nodes", T0 + HOUR_MS, node="n", type="draining")
    assert leaves(log)


def test_a_job_whose_alert_fires_stays_while_the_windows_have_anything_of_it() -> None:
    empty = PriceBook.empty()
    log = Log(Shard(0, ShardSettings(job_horizon_ms=HOUR_MS), empty))
    log.view = ReferenceLog(empty, {b"rule/z": UNPRICED_ON}).view()
    log.add("jobs", T0, type="started", gpu_count=1)
    log.judge(T0 + TICK_MS, T0 + TICK_MS)  # no price: an alert
    log.add("jobs", T0 + MINUTE_MS, type="completed")
    log.judge(T0 + MINUTE_MS, T0 + 2 * HOUR_MS)
    log.add("nodes", T0 + 3 * HOUR_MS, node="n", type="ready", gpu_count=1)
    assert not leaves(log), "whoever takes the shard over would judge without the job"
    log.judge(T0 + 2 * HOUR_MS + TICK_MS, T0 + 8 * HOUR_MS)
    log.add("nodes", T0 + 9 * HOUR_MS, node="n", type="draining")
    assert leaves(log), "only a price ends the alert, and that may never come"


def test_a_job_in_the_windows_that_a_new_price_may_change_stays_until_a_tick_has_seen_the_price() -> None:
    log = Log(Shard(0, ShardSettings(job_horizon_ms=10 * MINUTE_MS), BOOK))
    reference = ReferenceLog(BOOK)
    log.view = reference.view()
    log.add("jobs", T0 - 30 * MINUTE_MS, type="started", gpu_count=1)
    log.add("jobs", T0 - 20 * MINUTE_MS, type="completed")
    log.judge(T0 - 30 * MINUTE_MS, T0)  # it has a price, no alert
    dearer = PriceEvent("s", "q", 0, "h100", Component.gpu, 9 * 10**9, Per.gpu_hour, 1, 0, {})
    book = BOOK.with_events([dearer])
    reference.extend([(T0 + MINUTE_MS, dearer)], [], book, {})
    log.shard.set_prices(book)
    log.versions += 1
    log.shard.checkpoint(T0, log.versions, open_attempts=False)  # what the price changes is stored
    log.add("nodes", T0, node="n", type="ready", gpu_count=1)
    assert not leaves(log)
    log.judge(T0 + TICK_MS, T0 + 2 * MINUTE_MS)
    log.add("nodes", T0 + HOUR_MS, node="n", type="draining")
    assert leaves(log)


def test_a_node_that_goes_on_asks_for_no_checkpoint_that_cannot_pay_it() -> None:
    log = Log()
    log.add("nodes", T0, node="n", type="ready", gpu_count=1)
    log.versions += 1
    log.shard.checkpoint(T0, log.versions, open_attempts=False)
    assert not log.shard.unsaved(T0, open_attempts=False)
    assert log.shard.unsaved(T0, open_attempts=True)


def test_a_job_known_by_traffic_without_a_price_is_judged_at_the_next_tick() -> None:
    """It costs nothing, so no window shows anything of it."""
    log = Log()
    log.add("network", T0, interval_ms=0, bytes=7)
    log.judge(T0, T0)
    log.judge(T0 + TICK_MS, T0 + TICK_MS)
    assert [(each.rule, each.subject_name) for each in log.shard.tracker.alerts.drain_changes()] == [
        ("unpriced", "j")
    ]
