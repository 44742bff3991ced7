"""Each rule: when it opens, when it clears, when it is the same episode again, when it is silent."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pytest

from streams.engine.kernels.episode import IDLE_GPUS, NO_CHECKPOINT, SLOW_PROGRESS, STALLED
from streams.engine.rules.job_view import JobRule
from streams.engine.rules.registry import BURN_RULES, JOB_RULES
from tests.engine.alerts.scene import (
    ALL,
    DRIFT,
    FAST,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    SUSTAINED,
    TICK_MS,
    UNPRICED,
    USUAL,
    At,
    Scene,
)
from tests.oracle.burn import WINDOWS_MS
from tests.oracle.judge import LOOKS_BACK_MS, SEVERITY


class Case(NamedTuple):
    """What just opens a rule, its windows, and the shorter one's ratio that just keeps it open, and just does not."""

    rule: str
    opens: At
    short: str
    long: str
    stays: float
    clears: float


def at(known: At, **ratios: float) -> At:
    return replace(known, **ratios)  # type: ignore[arg-type]  # the ratios' fields only


each = pytest.mark.parametrize(
    "case",
    [
        Case("burn_fast", FAST, "m5", "m15", 4.8, 4.79),
        Case("burn_sustained", SUSTAINED, "m15", "h1", 1.68, 1.67),
        Case("burn_drift", DRIFT, "h1", "h6", 1.12, 1.11),
    ],
    ids=lambda case: case.rule,
)


@pytest.mark.parametrize("rule", JOB_RULES, ids=lambda rule: rule.name)
def test_a_rule_is_as_severe_and_looks_as_far_back_as_the_contract_says(rule: JobRule) -> None:
    said = SEVERITY.get(rule.name), LOOKS_BACK_MS.get(rule.name, WINDOWS_MS[0])
    assert said[0] is not None, "no line in FACTS of tests/oracle/judge.py"
    assert (rule.severity, rule.window_ms) == said, (
        "not as in FACTS and LOOKS_BACK_MS of tests/oracle/judge.py"
    )


def test_a_burn_rule_clears_at_four_fifths_of_its_shorter_ratio() -> None:
    for rule in BURN_RULES:
        assert rule.clear_ratio == pytest.approx(0.8 * rule.short_ratio)


@each
def test_it_opens_at_both_thresholds_and_not_beneath_one(case: Case) -> None:
    assert Scene().changes((0, case.opens)) == [(case.rule, "firing", 0)]
    for window in (case.short, case.long):
        beneath = at(case.opens, **{window: getattr(case.opens, window) - 0.01})
        assert Scene().changes((0, beneath)) == []


@each
def test_it_stays_until_the_shorter_window_is_below_80_percent(case: Case) -> None:
    scene = Scene()
    assert scene.changes((0, case.opens)) == [(case.rule, "firing", 0)]
    assert scene.changes((HOUR_MS, at(USUAL, **{case.short: case.stays}))) == []
    assert scene.changes((0, at(USUAL, **{case.short: case.clears}))) == [(case.rule, "resolved", 3610)]


@each
def test_it_opens_only_for_a_dollar_more_than_expected(case: Case) -> None:
    needed = 1 / (getattr(case.opens, case.long) - 1)
    assert Scene().changes((0, replace(case.opens, expected_usd=needed))) == [(case.rule, "firing", 0)]
    assert Scene().changes((0, replace(case.opens, expected_usd=needed * 0.999))) == []


@each
def test_once_open_it_stays_for_less_than_a_dollar(case: Case) -> None:
    scene = Scene()
    assert scene.changes((0, case.opens), (HOUR_MS, replace(case.opens, expected_usd=0.01))) == [
        (case.rule, "firing", 0)
    ]


@each
def test_it_opens_only_if_all_of_the_shorter_window_is_paid(case: Case) -> None:
    paid = tuple(name != case.short for name in ("m5", "m15", "h1", "h6"))
    scene = Scene()
    assert scene.changes((0, replace(case.opens, paid_whole=paid))) == []  # type: ignore[arg-type]  # four of them
    assert scene.changes((0, case.opens), (HOUR_MS, replace(case.opens, paid_whole=(False,) * 4))) == [
        (case.rule, "firing", 10)
    ]


@each
def test_an_ended_job_opens_nothing_and_clears(case: Case) -> None:
    ended = replace(case.opens, ended=True)
    assert Scene().changes((HOUR_MS, ended)) == []
    assert Scene().changes((0, case.opens), (HOUR_MS, ended)) == [
        (case.rule, "firing", 0),
        (case.rule, "resolved", 10),
    ]


@each
def test_nothing_expected_is_not_judged(case: Case) -> None:
    nothing = replace(case.opens, expected_usd=0)
    assert Scene().changes((HOUR_MS, nothing)) == []
    assert Scene().changes((0, case.opens), (0, nothing)) == [
        (case.rule, "firing", 0),
        (case.rule, "resolved", 10),
    ]


@each
def test_within_10_minutes_it_is_the_same_episode_and_after_them_another(case: Case) -> None:
    for pause_ms, same in ((10 * MINUTE_MS, True), (10 * MINUTE_MS + 10_000, False)):
        scene = Scene()
        first, cleared = scene.see((0, case.opens), (0, USUAL))
        (again,) = scene.see((pause_ms - 10_000, USUAL), (0, case.opens))
        assert again.changed_ms - cleared.changed_ms == pause_ms
        assert (again.alert_id == first.alert_id) is same
        assert (again.started_ms == first.started_ms) is same
        assert (again.status, again.resolved_ms, again.firings) == ("firing", None, 2 if same else 1)


@each
def test_an_episode_of_many_firings_goes_on_from_its_last_clearing(case: Case) -> None:
    scene = Scene()
    alerts = scene.see(*[(0, case.opens), (9 * MINUTE_MS, USUAL)] * 3)
    assert {alert.started_ms for alert in alerts} == {START_MS}
    assert [alert.firings for alert in alerts] == [1, 1, 2, 2, 3, 3]
    assert alerts[-1].resolved_ms == alerts[-1].changed_ms == alerts[-2].changed_ms + 10_000


def test_sustained_is_silent_while_fast_fires() -> None:
    scene = Scene()
    assert scene.changes((0, SUSTAINED), (HOUR_MS, ALL)) == [
        ("burn_sustained", "firing", 0),
        ("burn_fast", "firing", 10),
        ("burn_sustained", "resolved", 10),
    ]
    # Fast is over, and sustained holds 15 min later, when its shorter window has forgotten what was before.
    assert scene.changes((HOUR_MS, SUSTAINED)) == [
        ("burn_fast", "resolved", 3610),
        ("burn_sustained", "firing", 3610 + 900),
    ]


def test_sustained_does_not_page_for_what_its_hour_remembers_of_an_incident_put_right() -> None:
    scene = Scene()
    assert scene.changes((0, ALL), (15 * MINUTE_MS, SUSTAINED), (HOUR_MS, At(h1=9))) == [
        ("burn_fast", "firing", 0),
        ("burn_fast", "resolved", 10),
    ]
    scene = Scene()  # one tick more, and it holds in the 15 min after the recovery alone
    assert scene.changes((0, ALL), (15 * MINUTE_MS + TICK_MS, SUSTAINED), (0, At(h1=9)))[2:] == [
        ("burn_sustained", "firing", 910),
        ("burn_sustained", "resolved", 920),
    ]


def test_drift_is_silent_until_an_hour_after_the_last_page() -> None:
    for page, name in ((FAST, "burn_fast"), (SUSTAINED, "burn_sustained")):
        scene = Scene()
        high = replace(page, h1=max(page.h1, 1.5), h6=1.5)
        assert scene.changes((0, high), (2 * HOUR_MS, DRIFT)) == [
            (name, "firing", 0),
            (name, "resolved", 10),
            ("burn_drift", "firing", 3610),
        ]


def test_drift_is_resolved_when_a_page_opens() -> None:
    page = replace(SUSTAINED, h6=1.5, above_usd_per_hour=150)
    assert Scene().changes((0, DRIFT), (0, page)) == [
        ("burn_drift", "firing", 0),
        ("burn_sustained", "firing", 10),
        ("burn_drift", "resolved", 10),
    ]


def test_beside_a_drift_nothing_opens_that_is_no_more_urgent() -> None:
    assert Scene().changes((0, DRIFT), (0, replace(SUSTAINED, h6=1.5))) == [("burn_drift", "firing", 0)]


def test_the_hour_of_drift_begins_with_the_later_page() -> None:
    scene = Scene()
    high = At(m5=9, m15=2.5, h1=1.5, h6=1.5)
    sustained = replace(SUSTAINED, h6=1.5)
    assert scene.changes((0, high), (15 * MINUTE_MS + TICK_MS, sustained), (2 * HOUR_MS, DRIFT)) == [
        ("burn_fast", "firing", 0),
        ("burn_fast", "resolved", 10),
        ("burn_sustained", "firing", 910),
        ("burn_sustained", "resolved", 920),
        ("burn_drift", "firing", 4520),
    ]


def test_unpriced_fires_while_gpu_time_has_no_price_also_after_the_end() -> None:
    scene = Scene()
    ended = replace(UNPRICED, ended=True)
    assert scene.changes((0, UNPRICED), (HOUR_MS, ended), (0, replace(ended, facts=()))) == [
        ("unpriced", "firing", 0),
        ("unpriced", "resolved", 3610),
    ]
    assert Scene().changes((0, ended)) == [("unpriced", "firing", 0)]


def test_unpriced_held_up_to_its_end_also_while_nobody_looked_at_the_job() -> None:
    scene = Scene()
    scene.see((0, UNPRICED), (MINUTE_MS, UNPRICED))
    scene.now_ms += HOUR_MS  # nothing of the job was left in any window
    (row,) = scene.see((0, USUAL))
    assert (row.status, row.changed_ms - row.held_ms) == ("resolved", TICK_MS)


def test_unpriced_silences_nothing() -> None:
    assert Scene().changes((0, replace(FAST, facts=UNPRICED.facts))) == [
        ("burn_fast", "firing", 0),
        ("unpriced", "firing", 0),
    ]


def test_unpriced_again_within_10_minutes_is_the_same_episode() -> None:
    alerts = Scene().see(
        (0, UNPRICED), (10 * MINUTE_MS, USUAL), (0, UNPRICED), (11 * MINUTE_MS, USUAL), (0, UNPRICED)
    )
    assert [alert.firings for alert in alerts] == [1, 1, 2, 2, 1]
    assert len({alert.alert_id for alert in alerts}) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (IDLE_GPUS, STALLED), (STALLED, IDLE_GPUS), (IDLE_GPUS, SLOW_PROGRESS), (SLOW_PROGRESS, IDLE_GPUS),
        (STALLED, SLOW_PROGRESS),
    ],
)  # fmt: skip
def test_of_two_rules_that_tell_of_work_that_stands_still_one_opens(first: int, second: int) -> None:
    names = [JOB_RULES[number].name for number in (first, second)]
    scene = Scene()
    assert scene.changes((0, At(facts=(first,)))) == [(names[0], "firing", 0)]
    both = At(facts=(first, second))
    assert scene.changes((MINUTE_MS, both)) == []
    # The first one clears; the other one, which still holds, looks back at the same time for ten minutes.
    changes = scene.changes((10 * MINUTE_MS, At(facts=(second,))))
    assert [each[:2] for each in changes] == [(names[0], "resolved")]
    changes = scene.changes((0, At(facts=(second,))))
    assert [each[:2] for each in changes] == [(names[1], "firing")]
    assert Scene().changes((0, both)) == [(JOB_RULES[min(first, second)].name, "firing", 0)]


def test_slow_work_that_then_stands_still_is_told_again() -> None:
    scene = Scene()
    assert scene.changes((0, At(facts=(SLOW_PROGRESS,)))) == [("slow_progress", "firing", 0)]
    changes = scene.changes((MINUTE_MS, At(facts=(SLOW_PROGRESS, STALLED))))
    assert [each[:2] for each in changes] == [("stalled", "firing")]


@pytest.mark.parametrize("other", [IDLE_GPUS, STALLED])
def test_what_stands_still_is_not_told_to_save_its_work(other: int) -> None:
    name, scene = JOB_RULES[other].name, Scene()
    assert scene.changes((0, At(facts=(other,)))) == [(name, "firing", 0)]
    assert scene.changes((MINUTE_MS, At(facts=(other, NO_CHECKPOINT)))) == []
    # Work that went on has an hour to save itself.
    changes = scene.changes((HOUR_MS, At(facts=(NO_CHECKPOINT,))))
    assert [each[:2] for each in changes] == [(name, "resolved")]
    changes = scene.changes((0, At(facts=(NO_CHECKPOINT,))))
    assert [each[:2] for each in changes] == [("no_checkpoint", "firing")]
    # One that was told before stays.
    assert [each[:2] for each in scene.changes((0, At(facts=(other, NO_CHECKPOINT))))] == [(name, "firing")]
