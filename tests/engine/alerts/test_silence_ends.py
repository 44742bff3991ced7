"""A silence that ends while its alert fires: a row says so at the first tick at which nothing covers it any more."""

from __future__ import annotations

import random

import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.state.dimensions import AlertDimensions
from tests.engine.alerts.scene import (
    FAST,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    SUSTAINED,
    TICK_MS,
    UNPRICED,
    UNPRICED_ON,
    USUAL,
    At,
    Scene,
)


def silence(name: str, **fields: object) -> ControlEvent:
    return ControlEvent("t", name, 0, "silence", name, fields)


def scene(*silences: ControlEvent) -> Scene:
    made = Scene(Controls.from_events([UNPRICED_ON, *silences]))
    made.dimensions = {"j": AlertDimensions("j", team="vision")}
    return made


def told(alerts: list[Alert]) -> list[tuple[str, bool, int]]:
    """Each change: status, whether it is silenced, seconds since the start."""
    return [
        (each.status, each.silenced, (each.changed_ms - START_MS) // 1000)
        for each in alerts
        if is_change(each)
    ]


@pytest.mark.parametrize("opens", [FAST, SUSTAINED, UNPRICED], ids=["fast", "sustained", "fact"])
def test_what_still_fires_is_told_with_the_figures_of_that_tick(opens: At) -> None:
    alerts = scene(silence("s", team="vision", until_ms=START_MS + 95_000)).see((HOUR_MS, opens), (0, USUAL))
    assert told(alerts) == [("firing", True, 0), ("firing", False, 100), ("resolved", False, 3600)]
    ids = {alert.alert_id for alert in alerts}
    assert (len(ids), {alert.firings for alert in alerts}) == (1, {1})
    (heard,) = (alert for alert in alerts if not alert.silenced and alert.changed_ms == START_MS + 100_000)
    assert heard.held_ms == heard.changed_ms


def test_one_that_does_not_hold_at_that_tick_but_fires_is_told() -> None:
    """Between the ratio at which it opens and the one at which it clears."""
    fading = At(m5=5, m15=2.5)
    alerts = scene(silence("s", until_ms=START_MS + 60_000)).see((30_000, FAST), (5 * MINUTE_MS, fading))
    assert told(alerts) == [("firing", True, 0), ("firing", False, 60)]
    assert (alerts[-1].held_ms, alerts[-1].ratio) == (START_MS + 20_000, 2.5)


def test_one_that_ends_with_the_silence_or_before_is_not() -> None:
    until = silence("s", until_ms=START_MS + 60_000)
    for length_ms in (30_000, 60_000):
        alerts = scene(until).see((length_ms, FAST), (5 * MINUTE_MS, USUAL))
        assert [each.status for each in alerts if is_change(each)] == ["firing", "resolved"]


def test_another_silence_goes_on() -> None:
    both = (
        silence("s", until_ms=START_MS + 60_000),
        silence("t", from_ms=START_MS, until_ms=START_MS + 120_000),
    )
    assert told(scene(*both).see((HOUR_MS, FAST))) == [("firing", True, 0), ("firing", False, 120)]


def test_a_silence_that_is_ended_by_a_record() -> None:
    there = scene(silence("s", team="vision"))
    assert told(there.see((MINUTE_MS, FAST))) == [("firing", True, 0)]
    there.controls = Controls.from_events([UNPRICED_ON])
    assert told(there.see((MINUTE_MS, FAST))) == [("firing", False, 60)]


def test_a_silence_that_begins_while_it_fires_takes_nothing_back() -> None:
    later = silence("s", from_ms=START_MS + 30_000, until_ms=START_MS + 60_000)
    assert told(scene(later).see((HOUR_MS, FAST))) == [("firing", False, 0)]


def test_each_end_of_a_recurring_silence() -> None:
    """2026-03-01 03:00 UTC is a Sunday; it opens while it is quiet, and hears of it at 04:00."""
    nights = silence("s", hours="22:00-05:00", time_zone="Europe/Berlin")
    assert told(scene(nights).see((2 * HOUR_MS, FAST))) == [("firing", True, 0), ("firing", False, 3600)]


@pytest.mark.parametrize("seed", range(20))
def test_any_cut_of_the_ticks_tells_the_same(seed: int) -> None:
    draw = random.Random(f"silences {seed}")
    silences = [
        silence(f"s{k}", from_ms=START_MS + begin, until_ms=START_MS + begin + draw.randrange(1, 20) * 50_000)
        for k, begin in enumerate(draw.sample(range(0, HOUR_MS, 35_000), 6))
    ]
    stretches = [(draw.randrange(1, 40) * TICK_MS, draw.choice((FAST, UNPRICED, USUAL))) for _ in range(15)]
    whole = scene(*silences).see(*stretches)
    rows = [at for ms, at in stretches for _ in range(ms // TICK_MS)]
    there, parts = scene(*silences), list[Alert]()
    while rows:
        size = draw.choice((1, 1, 2, 5, 17, 100))
        parts += there.see(*((0, at) for at in rows[:size]))
        del rows[:size]
    assert [each for each in parts if is_change(each)] == [each for each in whole if is_change(each)]
