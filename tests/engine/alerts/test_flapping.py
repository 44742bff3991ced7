"""A rule that opens more than three times in three hours: its alert stays open until it was quiet for an hour."""

from __future__ import annotations

import random
from dataclasses import replace

import msgspec
import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.episodes import Memory
from streams.engine.alerts.judge import Judge
from streams.engine.rules.registry import NAMES
from tests.engine.alerts.scene import (
    FAST,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    SUSTAINED,
    UNPRICED_ON,
    USUAL,
    At,
    Scene,
)

IDLE = At(facts=(NAMES.index("held"),))
#: These say themselves when they may come again: an hour later, and when a job is twice as old.
AGAIN_LATER = ("burn_drift", "runaway_length")
TRAFFIC = At(h1=4, traffic_usd=30)
BY_FIGURES = {"burn_fast": FAST, "burn_sustained": SUSTAINED, "traffic": TRAFFIC}
each = pytest.mark.parametrize(
    ("rule", "opens"),
    [
        (name, BY_FIGURES.get(name, At(facts=(number,))))
        for number, name in enumerate(NAMES)
        if name not in AGAIN_LATER
    ],
)


def told(alerts: list[Alert]) -> list[tuple[str, int]]:
    """Each change of status, and minutes since the start."""
    return [
        (alert.status, (alert.changed_ms - START_MS) // MINUTE_MS) for alert in alerts if is_change(alert)
    ]


@each
@pytest.mark.parametrize("pause_min", [5, 30])
def test_the_fourth_opening_in_three_hours_stays_open_for_an_hour_of_quiet(
    rule: str, opens: At, pause_min: int
) -> None:
    """Whether it is one episode (pauses of 5 min) or each time another."""
    scene = Scene()
    alerts = scene.see(*[(MINUTE_MS, opens), (pause_min * MINUTE_MS, USUAL)] * 7, (2 * HOUR_MS, USUAL))
    assert {alert.rule for alert in alerts} == {rule}
    starts = [number * (pause_min + 1) for number in range(7)]
    ends = [start + 1 for start in starts]
    pairs = [pair for number in range(3) for pair in (("firing", starts[number]), ("resolved", ends[number]))]
    assert told(alerts) == [*pairs, ("firing", starts[3]), ("resolved", ends[6] + 60)]
    assert alerts[-1].firings == (4 if pause_min == 5 else 1)
    fourth = [alert for alert in alerts if alert.status == "firing"][3]
    assert "; stays open until quiet for 1 h" in fourth.summary


def test_three_openings_and_a_fourth_after_three_hours_are_no_flapping() -> None:
    scene = Scene()
    alerts = scene.see(
        *[(MINUTE_MS, FAST), (30 * MINUTE_MS, USUAL)] * 3,
        (88 * MINUTE_MS, USUAL),
        (MINUTE_MS, FAST),
        (0, USUAL),
    )
    assert told(alerts)[-2:] == [("firing", 181), ("resolved", 182)]


def test_one_that_opens_again_and_again_meanwhile_goes_on() -> None:
    """Openings that are not told count as well: after the hour of quiet the next one is flapping still."""
    scene = Scene()
    alerts = scene.see(
        *[(MINUTE_MS, FAST), (20 * MINUTE_MS, USUAL)] * 6,
        (45 * MINUTE_MS, USUAL),
        (MINUTE_MS, FAST),
        (2 * HOUR_MS, USUAL),
    )
    assert told(alerts)[6:] == [("firing", 63), ("resolved", 166), ("firing", 171), ("resolved", 232)]


@each
def test_the_jobs_end_ends_it(rule: str, opens: At) -> None:
    scene = Scene()
    scene.see(*[(0, opens), (5 * MINUTE_MS, USUAL)] * 4)
    (over,) = scene.see((0, replace(USUAL, ended=True)))
    assert (over.rule, over.status) == (rule, "resolved")


@each
def test_switching_the_rule_off_ends_it(rule: str, opens: At) -> None:
    scene = Scene()
    scene.see(*[(0, opens), (5 * MINUTE_MS, USUAL)] * 4)
    off = {"rule": rule, "enabled": False}
    scene.controls = Controls.from_events([UNPRICED_ON, ControlEvent("t", "off", 0, "rule", "a", off)])
    (over,) = scene.see((0, USUAL))
    assert (over.rule, over.status) == (rule, "resolved")


def test_figures_are_those_of_when_it_held() -> None:
    scene = Scene()
    scene.see(*[(0, FAST), (5 * MINUTE_MS, USUAL)] * 3)
    alerts = scene.see((0, FAST), (30 * MINUTE_MS, USUAL), (40 * MINUTE_MS, USUAL))
    assert (alerts[-1].status, alerts[-1].ratio, alerts[-1].held_ms) == ("resolved", 2.5, alerts[0].held_ms)


@pytest.mark.parametrize("seed", range(30))
def test_any_cut_and_any_restart_tells_the_same(seed: int) -> None:
    draw = random.Random(f"flapping {seed}")
    stretches = [
        (
            draw.choice((10_000, MINUTE_MS, 9 * MINUTE_MS, 20 * MINUTE_MS, 70 * MINUTE_MS)),
            draw.choice((FAST, IDLE, USUAL, USUAL)),
        )
        for _ in range(40)
    ]
    whole = Scene().see(*stretches)
    scene, parts = Scene(), list[Alert]()
    for stretch in stretches:
        parts += scene.see(stretch)
        scene.judge = Judge.load(
            msgspec.msgpack.decode(msgspec.msgpack.encode(scene.judge.dump()), type=Memory)
        )
    changes = [alert for alert in whole if is_change(alert)]
    assert [alert for alert in parts if is_change(alert)] == changes


def test_openings_of_burn_rules_count_together() -> None:
    """Bursts that two rules tell of in turn: the fourth opening stays open, whichever rule it is of, and the other one is quiet."""
    scene = Scene()
    burst = ((MINUTE_MS, SUSTAINED), (MINUTE_MS, FAST), (28 * MINUTE_MS, USUAL))
    alerts = scene.see(*burst * 6, (HOUR_MS, USUAL))
    changes = [(each.rule, *told([each])[0]) for each in alerts if is_change(each)]
    assert changes == [
        ("burn_sustained", "firing", 0),
        ("burn_fast", "firing", 1),
        ("burn_sustained", "resolved", 1),
        ("burn_fast", "resolved", 2),
        ("burn_sustained", "firing", 30),
        ("burn_fast", "firing", 31),
        ("burn_sustained", "resolved", 31),
        # That was the fourth within three hours.
        ("burn_fast", "resolved", 152 + 60),
    ]
    fourth = [each for each in alerts if each.status == "firing" and is_change(each)][3]
    assert "; stays open until quiet for 1 h" in fourth.summary


def test_a_slower_burn_that_flaps_stays_open_as_long_as_faster_ones_come() -> None:
    scene = Scene()
    scene.see(*[(MINUTE_MS, SUSTAINED), (20 * MINUTE_MS, USUAL)] * 4)
    alerts = scene.see(*[(MINUTE_MS, FAST), (50 * MINUTE_MS, USUAL)] * 3, (10 * MINUTE_MS, USUAL))
    assert told(alerts) == [("resolved", 84 + 2 * 51 + 60)]


def test_one_that_is_more_urgent_is_told_beside_one_that_flaps() -> None:
    scene = Scene()
    scene.see(*[(MINUTE_MS, SUSTAINED), (20 * MINUTE_MS, USUAL)] * 4)
    dear = replace(FAST, above_usd_per_hour=100)
    alerts = scene.see((MINUTE_MS, FAST), (MINUTE_MS, dear), (0, USUAL))
    changes = {(each.rule, each.severity, each.status) for each in alerts if is_change(each)}
    assert changes >= {("burn_fast", "page", "firing"), ("burn_sustained", "digest", "resolved")}


def test_openings_of_rules_about_what_stands_still_count_together() -> None:
    scene = Scene()
    idle, stalled = (At(facts=(NAMES.index(name),)) for name in ("idle_gpus", "stalled"))
    turns = [(MINUTE_MS, idle), (15 * MINUTE_MS, USUAL), (MINUTE_MS, stalled), (15 * MINUTE_MS, USUAL)]
    alerts = [each for each in scene.see(*turns * 4, (2 * HOUR_MS, USUAL)) if is_change(each)]
    assert [each.rule for each in alerts if each.status == "firing"] == ["idle_gpus", "stalled"] * 2
    assert told(alerts)[-1] == ("resolved", 112 + 61)
