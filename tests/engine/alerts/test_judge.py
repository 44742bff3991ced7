"""What the judge tells, remembers and forgets, however its ticks are cut."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping
from dataclasses import replace

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.alerts.alert import Alert, is_change, last_ms
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.episodes import JobMemory, Memory, Opening, Remembered
from streams.engine.alerts.from_episode import EpisodeFigures
from streams.engine.alerts.judge import Judge
from streams.engine.kernels.episode import EPISODE, PRICE_BASIS
from streams.engine.rules.job_view import JobAt, JobFacts
from streams.engine.rules.profiles import DEFAULT, Profile, Profiles
from streams.engine.rules.registry import NAMES
from streams.engine.state.dimensions import AlertDimensions
from tests.counted_work import instructions
from tests.engine.alerts.scene import (
    ALL,
    ALL_ON,
    DRIFT,
    FAST,
    HOUR_MS,
    MINUTE_MS,
    START_MS,
    SUSTAINED,
    TICK_MS,
    UNPRICED,
    USD,
    USUAL,
    At,
    Scene,
    figures,
)
from tests.engine.alerts.test_controls import silence

SORTS = (
    USUAL,
    USUAL,
    FAST,
    SUSTAINED,
    DRIFT,
    ALL,
    UNPRICED,
    replace(ALL, ended=True),
    At(m5=5, m15=2, h1=1.3),
)


@st.composite
def histories(draw: st.DrawFn) -> list[list[At]]:
    """[tick][job]: three jobs over two hours of ticks a minute apart, in stretches."""
    jobs = []
    for _ in range(3):
        stretches = draw(
            st.lists(st.tuples(st.integers(1, 70), st.sampled_from(SORTS)), min_size=1, max_size=8)
        )
        whole = [at for length, at in stretches for _ in range(length)]
        jobs.append((whole + [USUAL] * 120)[:120])
    return [list(row) for row in zip(*jobs, strict=True)]


def in_calls(history: list[list[At]], cuts: list[int], *, restart: bool) -> list[Alert]:
    """All rows, with the ticks cut into calls; a restart goes through the bytes of a snapshot."""
    controls = Controls.from_events([silence("night", job="b", from_ms=START_MS + 30 * MINUTE_MS)])
    judge, alerts = Judge(), []
    edges = [0, *sorted(cuts), len(history)]
    for begin, end in itertools.pairwise(edges):
        ticks = [START_MS + k * MINUTE_MS for k in range(begin, end)]
        if ticks:
            alerts += judge.judge(ticks, "abc", figures(history[begin:end]), AlertDimensions, controls)
        if restart:
            judge = Judge.load(msgspec.msgpack.decode(msgspec.msgpack.encode(judge.dump()), type=Memory))
    return alerts


@given(histories(), st.lists(st.integers(0, 120), max_size=6), st.booleans())
def test_cut_or_restarted_anywhere_it_tells_the_same(
    history: list[list[At]], cuts: list[int], restart: bool
) -> None:
    at_once = in_calls(history, [], restart=False)
    cut = in_calls(history, cuts, restart=restart)
    assert [alert for alert in cut if is_change(alert)] == [alert for alert in at_once if is_change(alert)]
    assert {alert.alert_id: alert for alert in cut} == {alert.alert_id: alert for alert in at_once}
    assert [last_ms(alert) for alert in cut] == sorted(last_ms(alert) for alert in cut)


def test_figures_are_of_the_longer_window_at_the_last_tick_at_which_it_held() -> None:
    scene = Scene()
    opened, held = scene.see(
        (0, replace(ALL, m15=4, h1=2)), (0, replace(ALL, m15=5, h1=2)), (0, At(m5=5, m15=9))
    )
    assert (opened.ratio, opened.cost_nano, opened.usd_nano_per_hour) == (4, 40 * USD, 160 * USD)
    assert (held.ratio, held.cost_nano, held.usd_nano_per_hour) == (5, 50 * USD, 200 * USD)
    assert opened.expected_nano_per_hour == held.expected_nano_per_hour == 40 * USD
    assert (opened.held_ms, held.held_ms, held.changed_ms) == (START_MS, START_MS + 10_000, START_MS)
    (resolved,) = scene.see((0, USUAL))
    assert (resolved.ratio, resolved.held_ms) == (5, START_MS + 10_000)
    assert resolved.changed_ms == resolved.resolved_ms == START_MS + 30_000


def test_the_tick_that_clears_counts_if_the_rule_holds_at_it() -> None:
    opened, resolved = Scene().see((0, ALL), (0, replace(ALL, m15=10, ended=True)))
    assert (opened.ratio, resolved.ratio, resolved.held_ms) == (9, 10, START_MS + TICK_MS)


def test_after_clearing_figures_stay() -> None:
    """An ended job's windows stay high for a while."""
    scene = Scene()
    scene.see((0, ALL), (0, replace(ALL, ended=True)))
    assert scene.see((HOUR_MS, replace(ALL, m15=99, ended=True))) == []


def test_a_rate_is_over_the_time_that_the_job_is_there() -> None:
    scene = Scene()
    made = figures([[ALL]])
    made.elapsed_ms[0, 0] = (300_000, 400_000, 400_000, 400_000)
    (alert,) = scene.judge.judge([START_MS], ("j",), made, scene.of)
    assert alert.usd_nano_per_hour == 90 * USD * 9
    assert alert.expected_nano_per_hour == 10 * USD * 9


def test_what_the_tables_cannot_hold_is_capped() -> None:
    (alert,) = Scene().see((0, replace(FAST, expected_usd=1e12)))
    assert alert.cost_nano == alert.usd_nano_per_hour == alert.expected_nano_per_hour == 10**18 - 1


def test_figures_that_move_are_one_row_a_call_and_of_unpriced_none() -> None:
    scene = Scene()
    assert len(scene.see((0, replace(FAST, facts=UNPRICED.facts)))) == 2
    (row,) = scene.see((MINUTE_MS, replace(FAST, facts=UNPRICED.facts)))
    assert (row.rule, row.held_ms, is_change(row)) == ("burn_fast", START_MS + MINUTE_MS, False)
    assert scene.see((MINUTE_MS, At(m5=5, m15=2.6)))[0].rule == "unpriced"
    assert scene.see((MINUTE_MS, At(m5=5, m15=2.6))) == []


def test_the_alert_names_the_job_its_people_and_the_episode() -> None:
    scene = Scene()
    scene.dimensions = {"j": AlertDimensions("j", owner="ann", team="nlp", project="p")}
    (alert,) = scene.see((0, FAST))
    assert (alert.subject_kind, alert.subject_name) == ("job", "j")
    assert (alert.owner, alert.team, alert.project) == ("ann", "nlp", "p")
    assert (alert.rule, alert.severity, alert.window_ms) == ("burn_fast", "digest", 900_000)
    # The first 24 digits of the SHA-256 of: burn_fast|job|j|1772334000000
    assert alert.alert_id == "al_b3b18ccafe04071ff4a34272"


def test_silenced_is_judged_at_the_tick_of_the_change() -> None:
    until_ms = START_MS + 20_000
    scene = Scene(Controls.from_events([silence("s", from_ms=START_MS, until_ms=until_ms, rule="burn_fast")]))
    opened, held = scene.see((0, FAST), (0, FAST))
    assert (opened.silenced, held.silenced) == (True, True)
    held, heard = scene.see((0, FAST))  # the silence is over
    assert (held.silenced, heard.silenced, heard.changed_ms) == (True, False, until_ms)
    (resolved,) = scene.see((0, USUAL))
    assert not resolved.silenced
    assert not scene.see((0, FAST))[0].silenced


def test_quiet_is_a_job_of_which_nothing_fires() -> None:
    scene = Scene()
    assert scene.judge.is_quiet("j")
    scene.see((0, FAST))
    assert not scene.judge.is_quiet("j")
    assert scene.judge.firing_jobs() == ["j"]
    assert scene.judge.is_quiet("other")
    scene.see((0, USUAL))
    assert scene.judge.is_quiet("j")
    assert scene.judge.firing_jobs() == []


def test_a_job_that_stays_away_keeps_its_place_for_three_hours() -> None:
    """It was left out of the ticks; the order of jobs is another one each time."""
    scene = Scene()
    (first, _) = scene.see((0, FAST), (0, USUAL))
    scene.see((5 * MINUTE_MS, USUAL), job="other")
    assert scene.see((0, FAST))[0].alert_id == first.alert_id
    scene.see((0, USUAL))
    scene.see((3 * HOUR_MS, USUAL), job="other")
    scene.see((0, FAST), job="other")
    assert [job.job_id for job in scene.judge.dump().jobs] == ["other"]


def test_what_has_no_effect_any_more_is_forgotten_and_its_place_used_again() -> None:
    scene = Scene()
    for k in range(50):
        scene.see((0, ALL), (0, USUAL), (4 * HOUR_MS, USUAL), job=f"j{k}")
    assert len(scene.judge.dump().jobs) == 1
    assert len(scene.judge._episodes.lines) == 16
    for k in range(50):
        scene.see((0, ALL), job=f"j{k}")
    assert len(scene.judge.dump().jobs) == 50
    assert len(scene.judge._episodes.lines) == 64


def test_the_silence_of_drift_outlives_a_restart() -> None:
    scene = Scene()
    scene.see((0, replace(FAST, h1=1.5, h6=1.5)), (50 * MINUTE_MS, DRIFT))
    scene.judge = Judge.load(scene.judge.dump())
    (drift,) = [alert for alert in scene.see((HOUR_MS, DRIFT)) if is_change(alert)]
    assert drift.started_ms == START_MS + TICK_MS + HOUR_MS


def test_ticks_must_rise() -> None:
    judge = Judge()
    for ticks in ([0, 0], [10_000, 0]):
        with pytest.raises(ValueError, match="rise"):
            judge.judge(ticks, ("j",), figures([[USUAL]] * 2), AlertDimensions)


def test_nothing_to_judge_is_no_fault() -> None:
    judge = Judge()
    assert judge.judge([], ("j",), figures([[USUAL]]), AlertDimensions) == []
    assert judge.judge([0], (), figures([[USUAL]]), AlertDimensions) == []


@pytest.mark.skipif(os.environ.get("NUMBA_DISABLE_JIT", "0") != "0", reason="the JIT is off")
def test_many_jobs_a_tick_are_no_work_for_python() -> None:
    """Also while something of one of them is remembered, so that all must be looked up: C and the kernel do it."""
    steps = []
    for jobs in (10, 10_000):
        ids = tuple(f"job-{k}" for k in range(jobs))
        many, judge = figures([[USUAL] * jobs]), Judge()
        judge.judge([START_MS], ids[-1:], figures([[ALL]]), AlertDimensions)
        judge.judge([START_MS + TICK_MS], ids, many, AlertDimensions)  # what is compiled is loaded
        steps.append(instructions(judge.judge, [START_MS + 2 * TICK_MS], ids, many, AlertDimensions))
    assert steps[1] < steps[0] + 100


#: In each window traffic costs $30, and all else what is expected.
MOVES = At(m5=4, m15=4, h1=4, h6=4, traffic_usd=30)
#: At 2.2 times the price, from a preemption on.
DEARER = At(m5=2.2, m15=2.2, h1=2.2, h6=2.2, basis_usd=12, facts=(PRICE_BASIS,))


def test_traffic_makes_no_burn_rule_open() -> None:
    assert Scene().changes((HOUR_MS, MOVES), (0, USUAL)) == [
        ("traffic", "firing", 0),
        ("traffic", "resolved", 3600),
    ]
    more = At(m5=9, m15=9, h1=9, traffic_usd=30)
    assert [rule for rule, *_ in Scene().changes((0, more))] == ["burn_fast"]


def test_a_start_fetches_what_it_needs() -> None:
    begun = replace(MOVES, start_usd=15)  # as much as twice of what it fetched
    assert Scene().changes((0, begun)) == []
    assert Scene().changes((0, replace(begun, start_usd=14.9))) == [("traffic", "firing", 0)]
    young = replace(MOVES, since_paid_ms=HOUR_MS - 1)
    dear = At(m5=11, m15=11, h1=11, h6=11, traffic_usd=100, since_paid_ms=MINUTE_MS)
    assert Scene().changes((0, young), (0, dear)) == [("traffic", "firing", 10)]


def test_what_comes_again_fires_until_it_does_not() -> None:
    again = At(h1=1.6, traffic_usd=6, again_usd=6, start_usd=6)
    between = replace(again, h1=1, traffic_usd=0)
    assert Scene().changes((0, again), (0, between), (0, replace(between, again_usd=4))) == [
        ("traffic", "firing", 0),
        ("traffic", "resolved", 20),
    ]
    # It is not much of what the job costs, or it was expected.
    assert Scene().changes((0, replace(again, h1=1.9, again_usd=6))) == []
    assert Scene().changes((0, replace(again, h1=1.2, again_usd=5.5, traffic_usd=3.3))) == []


def test_a_higher_price_is_told_by_price_basis_alone() -> None:
    moved = replace(DEARER, facts=(), m5=1, m15=2.1)
    assert Scene().changes((2 * HOUR_MS, DEARER), (14 * MINUTE_MS, moved)) == [
        ("price_basis", "firing", 0),
        ("price_basis", "resolved", 7200),
    ]
    # What it does not explain is told beside it, and so is what comes once the window has forgotten it.
    more = replace(DEARER, m15=3.3, h1=3.3)
    assert Scene().changes((0, DEARER), (0, more))[1:] == [("burn_sustained", "firing", 10)]
    later = Scene().changes((0, DEARER), (15 * MINUTE_MS + TICK_MS, replace(DEARER, facts=())))
    assert later[2:] == [("burn_sustained", "firing", 910)]


def test_an_open_burn_stays_open_beside_a_cause_that_explains_a_part_of_it() -> None:
    own = At(m15=2.1, h1=2.1, h6=2.1)
    dearer = replace(own, m15=3, basis_usd=13, facts=(PRICE_BASIS,))
    assert [rule for rule, *_ in Scene().changes((0, own), (0, dearer))] == ["burn_sustained", "price_basis"]


def severities(at: At, **changes: Mapping[str, object]) -> list[tuple[str, str]]:
    """(rule, severity) of each alert at a tick, with other settings of these rules."""
    rules = list(DEFAULT.rules)
    for name, change in changes.items():
        place = NAMES.index(name)
        rules[place] = rules[place]._replace(**change)  # type: ignore[arg-type]  # by name
    profiles = Profiles()
    seen = figures([[at]])
    seen.profile[:] = profiles.number(Profile(tuple(rules)))
    seen.now_rate[:] = 120 * USD
    told = Judge().judge([START_MS], ("j",), seen, AlertDimensions, profiles=profiles)
    return [(alert.rule, alert.severity) for alert in told]


def test_a_ticket_suppresses_no_burn_fast_page() -> None:
    sixfold = replace(DEARER, m5=6, m15=6, h1=6, basis_usd=52)
    assert severities(sixfold) == [("burn_fast", "page"), ("price_basis", "ticket")]
    assert severities(sixfold, price_basis={"severity": "page"}) == [("price_basis", "page")]
    off = severities(DEARER, price_basis={"enabled": False})
    assert off == [("burn_sustained", "page")]


def test_a_burn_that_grows_is_told_anew_as_what_it_has_become() -> None:
    """A ticket that nobody has read yet would hide what costs a hundred times as much now."""
    judge = Judge()

    def told(tick: int, at: At, usd_per_hour: float) -> list[tuple[str, str, int]]:
        made = figures([[at]])
        made.now_rate[:], made.expected_rate[:] = usd_per_hour * USD, 10 * USD
        rows = judge.judge([START_MS + tick * TICK_MS], ["j"], made, AlertDimensions)
        return [
            (row.severity, row.status, (row.changed_ms - START_MS) // TICK_MS)
            for row in rows
            if is_change(row) or row.changed_ms == START_MS + tick * TICK_MS
        ]

    assert told(0, FAST, 10.5) == [("digest", "firing", 0)]
    assert told(1, FAST, 11) == [("ticket", "firing", 1)]
    judge = Judge.load(msgspec.msgpack.decode(msgspec.msgpack.encode(judge.dump()), type=Memory))
    assert told(2, FAST, 109.9) == []
    assert told(3, At(m5=5, m15=2.5), 110) == [("page", "firing", 3)]
    assert told(4, FAST, 12) == []
    assert told(5, USUAL, 10) == [("page", "resolved", 5)]


def test_what_is_reported_and_remembered_follows_the_kernels_layout() -> None:
    """What is reported is filled by position."""
    names = EPISODE.names
    assert names is not None
    assert EpisodeFigures._fields == names
    assert {*Remembered.__struct_fields__[1:], "reported_ms"} == {*names, *Opening._fields}


def test_a_rule_that_knows_what_is_wasted_pages_from_a_threshold_on_for_all_of_an_episode() -> None:
    held = NAMES.index("held")
    holds = At(facts=(held,))

    def job_at(_job_id: str, at_ms: int) -> JobAt:
        return known_at(at_ms)

    def told(judge: Judge, tick: int, at: At, usd_per_hour: float) -> list[str]:
        made = figures([[at]])
        made.now_rate[:] = usd_per_hour * USD
        ticks = [START_MS + tick * TICK_MS]
        rows = judge.judge(ticks, ["j"], made, AlertDimensions, ALL_ON, Profiles(), job_at)
        return [f"{row.severity} {row.status}" for row in rows if is_change(row)]

    judge = Judge()
    assert told(judge, 0, holds, 99.9) == ["ticket firing"]
    assert told(judge, 1, holds, 500) == []
    judge = Judge.load(msgspec.msgpack.decode(msgspec.msgpack.encode(judge.dump()), type=Memory))
    assert told(judge, 2, USUAL, 500) == ["ticket resolved"]
    assert told(judge, 3, holds, 500) == ["ticket firing"], "it is the same episode"
    assert told(judge, 4, USUAL, 500) == ["ticket resolved"]
    assert told(judge, 100, holds, 100) == ["page firing"]
    judge = Judge.load(judge.dump())
    assert told(judge, 101, USUAL, 0) == ["page resolved"]


def test_an_episode_that_began_under_an_older_program_has_the_severity_of_the_settings() -> None:
    old = Memory(
        [JobMemory("j", [Remembered("held", 1, START_MS, START_MS, 0, START_MS, 1, 0, 0.0, 0.0, 0.0, 0)])]
    )
    judge = Judge.load(old)
    made = figures([[USUAL]])
    (row,) = judge.judge([START_MS + TICK_MS], ["j"], made, AlertDimensions, ALL_ON, Profiles())
    assert (row.rule, row.severity, row.status) == ("held", "ticket", "resolved")


def known_at(at_ms: int) -> JobAt:
    """A job of which nothing is known but what it pays."""
    facts = JobFacts()
    return JobAt(
        at_ms=at_ms,
        job=None,
        facts=facts,
        timelines={},
        lines={},
        settings=DEFAULT.by_name(),
        book=None,
        first_paid_ms=0,
    )
