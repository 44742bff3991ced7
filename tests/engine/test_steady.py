"""Ticks at which no alert can open or end are left out: rows and alerts are those of looking at each of them."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.tables import ALERTS, BURN_RATES
from schemas.units import Per
from streams.engine.burn.tracker import BurnTracker
from streams.engine.kernels.arrays import I64
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.shard import Shard
from streams.engine.windows.curves import CurveBook
from tests.engine.alerts.scene import UNPRICED_ON
from tests.engine.test_burn_tracker import HOUR_MS, MINUTE_MS, T0, Log
from tests.property.profile import EXAMPLES

FUTURE_MS: Final = T0 + 5 * HOUR_MS + 1_500
#: A price that changes in the sixth hour, one that is nothing.
PRICES: Final = PriceBook.empty().with_events(
    [
        PriceEvent("s", "p", 0, "h100", Component.gpu, 2 * 10**9, Per.gpu_hour, 1, 0, {"gpu_type": "H100"}),
        PriceEvent("s", "q", 0, "h100", Component.gpu, 5 * 10**9, Per.gpu_hour, 1, FUTURE_MS, {"gpu_type": "H100"}),
        PriceEvent("s", "f", 0, "free", Component.gpu, 0, Per.gpu_hour, 1, 0, {"gpu_type": "FREE"}),
    ]
)  # fmt: skip
#: (ms since T0, job, event).
Story = list[tuple[int, str, dict[str, Any]]]


def drift(ratio: float) -> ControlEvent:
    """A published rule: from this ratio on `burn_drift` opens."""
    return ControlEvent(
        "t",
        "drift",
        0,
        "rule",
        "d",
        {"rule": "burn_drift", "thresholds": {"long_ratio": ratio, "short_ratio": ratio}},
    )


def rows_and_ticks(
    story: Story, last_ms: int, *, skips: bool, ratio: float = 1.5
) -> tuple[list[dict[str, Any]], int]:
    """All rows in the order in which they came, and how many ticks were looked at."""
    looked, write = [0], BurnTracker._write

    def counted(watch: BurnTracker, times_ms: I64) -> Any:
        looked[0] += len(times_ms)
        return write(watch, times_ms)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(BurnTracker, "_write", counted)
        if not skips:
            patch.setattr(CurveBook, "is_steady", lambda *_: False)
        log = Log(Shard(0, ShardSettings(), PRICES))
        log.view = ReferenceLog(PRICES, controls={b"rule/z": UNPRICED_ON, b"rule/d": drift(ratio)}).view()
        tick_ms, rows = T0, []
        for after_ms, job_id, event in [*sorted(story, key=lambda entry: entry[0]), (last_ms + 1, "", {})]:
            until_ms = (T0 + after_ms - 1) // TICK_MS * TICK_MS  # a tick sees what is not later than it
            if until_ms >= tick_ms:
                log.judge(tick_ms, until_ms)
                tick_ms = until_ms + TICK_MS
            tables = log.shard.tracker.tables(0, 1)
            for name in (BURN_RATES, ALERTS):
                rows += [
                    {"table": name, **row} for row in (tables[name].to_pylist() if name in tables else [])
                ]
            if event:
                log.add("jobs", T0 + after_ms, job_id=job_id, **event)
    return rows, looked[0]


def both(story: Story, last_ms: int, ratio: float = 1.5) -> tuple[int, int]:
    """How many ticks were looked at when some may be left out, and when none may; the rows are equal."""
    rows, looked = rows_and_ticks(story, last_ms, skips=True, ratio=ratio)
    all_rows, all_looked = rows_and_ticks(story, last_ms, skips=False, ratio=ratio)
    assert rows == all_rows
    return looked, all_looked


def start(gpus: int = 8, gpu_type: str = "H100", **more: Any) -> dict[str, Any]:
    return {"type": "started", "gpu_count": gpus, "gpu_type": gpu_type, **more}


def test_of_a_job_that_costs_what_is_expected_whole_minutes_are_looked_at() -> None:
    story: Story = [(1_000, "a", start()), (2 * HOUR_MS + 3_000, "a", {"type": "completed"})]
    looked, of_all = both(story, 4 * HOUR_MS)
    assert of_all == 4 * 360
    assert looked == 4 * 60 + 2  # and the first tick after each event


def test_of_a_job_that_is_heard_at_each_tick_whole_minutes_are_looked_at() -> None:
    """As in a busy log, in which records lie between all ticks."""
    beats: Story = [(6_000 + n * TICK_MS, "a", {"type": "heartbeat"}) for n in range(1, 360)]
    looked, of_all = both([(1_000, "a", start()), *beats], HOUR_MS)
    assert of_all == 360
    assert looked <= 60 + 3


def test_of_a_job_that_is_heard_at_each_tick_all_are_looked_at_while_an_alert_can_open() -> None:
    beats: Story = [(6_000 + n * TICK_MS, "a", {"type": "heartbeat"}) for n in range(1, 360)]
    story: Story = [(0, "a", start()), *beats, (HOUR_MS + 3_000, "a", {"type": "scaled", "gpu_count": 64})]
    both(story, 3 * HOUR_MS)
    rows, _ = rows_and_ticks(story, 3 * HOUR_MS, skips=True)
    assert any(row["table"] == ALERTS for row in rows)


def test_of_a_job_that_costs_less_than_expected_too() -> None:
    looked, of_all = both([(1_000, "a", start(expected_usd_per_hour=100))], 4 * HOUR_MS)
    assert (looked, of_all) == (4 * 60 + 1, 4 * 360)


def test_of_a_job_that_costs_more_than_expected_but_less_than_any_rule_asks_for_too() -> None:
    story: Story = [(1_000, "a", start(expected_usd_per_hour=12))]  # it costs $16
    looked, of_all = both(story, 4 * HOUR_MS)
    assert (looked, of_all) == (4 * 60 + 1, 4 * 360)
    looked, of_all = both(story, 4 * HOUR_MS, 16 / 12)
    assert looked > of_all * 0.7
    rows, _ = rows_and_ticks(story, 4 * HOUR_MS, skips=True, ratio=16 / 12)
    assert any(row["table"] == ALERTS for row in rows)


@pytest.mark.parametrize(
    "story",
    [
        [(0, "a", start(expected_usd_per_hour=1))],  # costs more than it says
        [(0, "a", start(gpu_type="B200"))],  # has no price
        [(0, "a", start()), (HOUR_MS, "a", {"type": "scaled", "gpu_count": 64})],  # and more than it did
    ],
)
def test_where_an_alert_can_open_each_tick_is_looked_at(story: Story) -> None:
    looked, of_all = both(story, 4 * HOUR_MS)
    rows, _ = rows_and_ticks(story, 4 * HOUR_MS, skips=True)
    assert any(row["table"] == ALERTS for row in rows)
    assert looked > of_all * 0.7


def test_a_change_that_is_known_before_is_not_passed_by() -> None:
    heard: Story = [(1_000, "a", start()), (3 * HOUR_MS, "a", {"type": "heartbeat"})]
    looked, of_all = both(heard, 8 * HOUR_MS)
    assert of_all - looked == (3 * 360 - 1) - 3 * 60  # up to the call in which the price changes


events = st.one_of(
    st.builds(start, st.sampled_from([0, 1, 8]), st.sampled_from(["H100", "FREE", "B200"])),
    st.just({"type": "completed"}),
    st.just({"type": "scaled", "gpu_count": 64}),
    st.just({"type": "suspended"}),
    st.just({"type": "resumed"}),
    st.just({"type": "heartbeat", "expected_usd_per_hour": 500}),
    st.builds(
        lambda usd: {"type": "heartbeat", "expected_usd_per_hour": usd}, st.sampled_from([10, 12, 15, 16])
    ),
)
instants = st.integers(0, 7 * HOUR_MS) | st.integers(0, 7 * 360).map(lambda tick: tick * TICK_MS)


@settings(max_examples=max(EXAMPLES // 10, 5), deadline=None)
@given(
    st.lists(st.tuples(instants, st.sampled_from(["a", "b"]), events), min_size=1, max_size=6),
    st.sampled_from([1.05, 16 / 15, 16 / 12, 1.5, 1.6, 3.0]),
)
@example([(TICK_MS, "a", start(0)), (MINUTE_MS, "a", {"type": "completed"})], 1.5)
@example([(TICK_MS, "a", start(8, "FREE"))], 1.5)
def test_rows_and_alerts_are_those_of_all_ticks(story: Story, ratio: float) -> None:
    both(story, 14 * HOUR_MS, ratio)
