"""The judge of rules against its naive twin, its layout's guards, and what it costs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.durations import BEGINNING_MS
from streams.engine.kernels import conditions
from streams.engine.kernels import judge as kernels
from streams.engine.kernels.arrays import F64
from streams.engine.kernels.episode import (
    BURN_RULES,
    ENDED,
    HELD,
    OPENED,
    OUTRANKED,
    RAISED,
    RECOVERED,
    SWITCHED_OFF,
    UNSEEN,
    EpisodeArrays,
    RuleLimits,
    as_arrays,
    no_episodes,
)
from streams.engine.rules.profiles import DEFAULT as DEFAULT_PROFILE
from streams.engine.rules.profiles import limits_of
from streams.engine.rules.registry import NAMES
from tests.counted_work import plain
from tests.engine.kernels.naive_judge import DEFAULT, HOUR, At, Episode, Job, Settings

KINDS = {
    OPENED: "opened",
    HELD: "held",
    RAISED: "raised",
    RECOVERED: "recovered",
    ENDED: "ended",
    OUTRANKED: "outranked",
    SWITCHED_OFF: "off",
}
USD = 10**9
WINDOWS = 4
ALONE = np.array([-1], np.int32)

# Thresholds, 80 % of them, and what is just beside them.
RATIOS = (
    "0",
    "1",
    "1.19",
    "1.2",
    "1.49",
    "1.5",
    "1.68",
    "1.67",
    "2.09",
    "2.1",
    "2.5",
    "2.4",
    "4.79",
    "4.8",
    "6",
    "9",
)
STRICT = Settings(
    burn={
        "burn_fast": (Fraction("1.5"), Fraction("1.2"), USD // 2),
        "burn_sustained": (Fraction("1.2"), Fraction("1.19"), 2 * USD),
        "burn_drift": (Fraction("1.2"), Fraction("1.2"), USD),
    },
    off=frozenset({"burn_sustained", "unpriced", "idle_gpus"}),
    longest=2 * HOUR,
    grace=300_000,
    traffic=USD,
    traffic_ratio=Fraction("0.5"),
    start_times=Fraction(1),
    repeated_ratio=Fraction("0.25"),
    dear=10 * USD,
    pages=frozenset({"burn_fast", "price_basis"}),
    told=(20 * USD, 110 * USD),
)
PROFILES = (DEFAULT, STRICT)
STEPS_MS = (10_000, 10_000, 10_000, 300_000, 590_000, 600_000, 610_000, 3_590_000, 3_600_000)


amounts = st.sampled_from((0, 0, 4 * USD, 5 * USD - USD // 1000, 5 * USD, 10 * USD, 100 * USD))


@st.composite
def facts(draw: st.DrawFn) -> At:
    """One job at one tick: often high in all windows at once, so that something opens."""
    expected = tuple(draw(st.sampled_from((0, USD, USD, 10 * USD, 10 * USD))) for _ in range(WINDOWS))
    level = draw(st.sampled_from((None, None, "1", "1.5", "2.1", "9")))
    cost = tuple(int(Fraction(level or draw(st.sampled_from(RATIOS))) * (each or USD)) for each in expected)
    usually = st.integers(0, 9).map(bool)
    return At(
        cost,
        expected,
        tuple(draw(st.integers(1, 10**7)) for _ in range(WINDOWS)),
        tuple(draw(usually) for _ in range(WINDOWS)),
        not draw(usually),
        frozenset(draw(st.sets(st.sampled_from((3, 4, 5, 6, 9)), max_size=2))),
        draw(st.booleans()),
        draw(usually),
        draw(st.sampled_from((0, HOUR - 1, HOUR, 2 * HOUR - 1, 2 * HOUR, 168 * HOUR - 1, 168 * HOUR))),
        tuple(draw(amounts) for _ in range(WINDOWS)),
        tuple(draw(st.sampled_from((0, 0, USD // 2, USD, 10 * USD))) for _ in range(WINDOWS)),
        frozenset(draw(st.sets(st.just(6)))),
        draw(st.sampled_from((0, 12 * USD, 120 * USD))),
        draw(st.sampled_from((0, 12 * USD))),
        draw(amounts),
        draw(amounts),
        draw(amounts),
    )


History = tuple[list[int], list[list[At]], list[Job]]


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Ticks, the jobs, and per job what is known at each; jobs often stay as they are for a while."""
    steps = draw(st.lists(st.sampled_from(STEPS_MS), min_size=1, max_size=12))
    ticks = [10_000_000 + sum(steps[:k]) for k in range(len(steps))]
    jobs = []
    for _ in range(draw(st.integers(1, 3))):
        job: list[At] = []
        for _ in ticks:
            stays = draw(st.booleans()) and bool(job)
            job.append(job[-1] if stays else draw(facts()))
        jobs.append(job)
    deadlines = st.sampled_from((2**62, ticks[-1] - 300_000, ticks[0] + 10_000))
    kinds = [
        Job(settings=draw(st.sampled_from(PROFILES)), deadline=draw(deadlines), start=draw(amounts))
        for _ in jobs
    ]
    return ticks, jobs, kinds


def limits() -> RuleLimits:
    """The thresholds of both settings."""
    plain = limits_of([DEFAULT_PROFILE, DEFAULT_PROFILE])

    def burn(of: Callable[[tuple[Fraction, Fraction, int]], Fraction | int]) -> F64:
        return np.array([[float(of(rule)) for rule in each.burn.values()] for each in PROFILES])

    return plain._replace(
        long_ratio=burn(lambda rule: rule[0]),
        short_ratio=burn(lambda rule: rule[1]),
        clear_ratio=burn(lambda rule: rule[1] * Fraction(8, 10)),
        extra_nano=burn(lambda rule: rule[2]),
        ticket_nano=np.array([[float(each.told[0])] * 3 for each in PROFILES]),
        page_nano=np.array([[float(each.told[1])] * 3 for each in PROFILES]),
        enabled=np.array(
            [sum(1 << NAMES.index(name) for name in NAMES if name not in each.off) for each in PROFILES]
        ),
        pages=np.array([sum(1 << NAMES.index(name) for name in each.pages) for each in PROFILES]),
        longest_ms=np.array([each.longest for each in PROFILES]),
        grace_ms=np.array([each.grace for each in PROFILES]),
        traffic_nano=np.array([float(each.traffic) for each in PROFILES]),
        traffic_ratio=np.array([float(each.traffic_ratio) for each in PROFILES]),
        traffic_start_times=np.array([float(each.start_times) for each in PROFILES]),
        traffic_repeated_ratio=np.array([float(each.repeated_ratio) for each in PROFILES]),
        traffic_dear_nano=np.array([float(each.dear) for each in PROFILES]),
    )


def arrays(jobs: list[list[At]], kinds: Sequence[Job] = ()) -> EpisodeArrays:
    """The kernel's figures of [job][tick]."""
    by_tick = list(zip(*jobs, strict=True))
    kinds = kinds or [Job() for _ in jobs]

    def of(name: str, dtype: type) -> Any:
        return np.array([[getattr(at, name) for at in row] for row in by_tick], dtype)

    bits = [
        [sum(1 << f for f in at.facts) + sum(1 << (f + UNSEEN) for f in at.unseen) for at in row]
        for row in by_tick
    ]
    whole = EpisodeArrays(
        of("now_rate", np.float64),
        of("expected_rate", np.float64),
        of("cost", np.float64),
        of("expected", np.float64),
        of("traffic", np.float64),
        of("basis", np.float64),
        of("elapsed", np.int64),
        of("paid_whole", np.bool_),
        of("ended", np.bool_),
        of("undecided", np.bool_),
        of("paid_now", np.bool_),
        of("since_paid", np.int64),
        np.array(bits, np.int64),
        of("steady", np.float64),
        of("repeated", np.float64),
        of("recurring", np.float64),
        np.array([kind.start for kind in kinds], np.float64),
        np.array([kind.deadline for kind in kinds], np.int64),
        np.array([PROFILES.index(kind.settings) for kind in kinds], np.int64),
    )
    return as_arrays(whole, len(by_tick), len(jobs), WINDOWS, len(PROFILES))


def shown(episode: np.void) -> Episode:
    """The kernel's episode as the naive one."""
    cleared = int(episode["cleared_ms"])
    return Episode(
        bool(episode["open"]),
        int(episode["started_ms"]),
        int(episode["fired_ms"]),
        None if cleared == BEGINNING_MS else cleared,
        int(episode["held_ms"]),
        int(episode["firings"]),
        int(episode["cost_nano"]),
        int(episode["expected_nano"]),
        int(episode["elapsed_ms"]),
        Fraction(float(episode["short_ratio"])).limit_denominator(10**5),
        level=int(episode["level"]),
        since={
            level: int(episode[name])
            for level, name in ((1, "ticket_ms"), (2, "page_ms"))
            if episode[name] != BEGINNING_MS
        },
    )


def run(
    ticks: list[int], jobs: list[list[At]], lines: Any, kinds: Sequence[Job] = ()
) -> list[list[tuple[int, str, str, Episode]]]:
    """Per job, what the kernel tells; `lines` is the memory of all jobs and goes on."""
    figures = arrays(jobs, kinds)
    found = kernels.find_jobs(ticks, limits(), figures, np.arange(len(jobs), dtype=np.int32), lines)
    changes, episodes = kernels.judge_jobs(ticks, limits(), figures, found, found, lines)
    told: list[list[tuple[int, str, str, Episode]]] = [[] for _ in jobs]
    for change, episode in zip(changes, episodes, strict=True):
        job, rule, kind, at_ms = change.item()
        told[job].append((at_ms, NAMES[rule], KINDS[kind], shown(episode)))
    return told


@given(histories())
def test_it_tells_what_its_naive_twin_tells(history: History) -> None:
    ticks, jobs, kinds = history
    assert run(ticks, jobs, no_episodes(len(jobs)), kinds) == [
        kind.judge(ticks, job) for kind, job in zip(kinds, jobs, strict=True)
    ]


@given(histories(), st.data())
def test_cutting_the_ticks_changes_no_change_of_status(history: History, data: st.DataObject) -> None:
    ticks, jobs, kinds = history
    cut = data.draw(st.integers(0, len(ticks)))
    lines, whole = no_episodes(len(jobs)), no_episodes(len(jobs))
    told: list[list[tuple[int, str, str, Episode]]] = [[] for _ in jobs]
    for part in (slice(0, cut), slice(cut, None)):
        if ticks[part]:
            for mine, more in zip(
                told, run(ticks[part], [job[part] for job in jobs], lines, kinds), strict=True
            ):
                mine += more
    at_once = run(ticks, jobs, whole, kinds)
    without = [[entry for entry in job if entry[2] != "held"] for job in told]
    assert without == [[entry for entry in job if entry[2] != "held"] for job in at_once]
    # What was given out last of each rule is the same too.
    assert [{entry[1]: entry for entry in job} for job in told] == [
        {entry[1]: entry for entry in job} for job in at_once
    ]


def test_many_changes_take_several_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call tells no more than there is room for."""
    high = At((9 * USD,) * 4, (USD,) * 4, (1,) * 4, (True,) * 4, False)
    flapping = [high, dataclasses.replace(high, ended=True, facts=frozenset({3}))] * 10
    ticks = [10_000 * k for k in range(20)]
    before = run(ticks, [flapping] * 5, no_episodes(5))
    monkeypatch.setattr(kernels, "_ROOM", 1)
    assert run(ticks, [flapping] * 5, no_episodes(5)) == before == [Job().judge(ticks, flapping)] * 5


def test_noise_of_the_last_bits_misses_no_threshold() -> None:
    """6 x 0.1 is not 0.6 in doubles; a millionth below is below."""
    at = At((6 * USD,) * 4, (USD,) * 4, (1,) * 4, (True,) * 4, False)
    for factor, opens in ((1 - 1e-12, True), (1 - 1e-6, False)):
        figures = arrays([[at]])
        figures.cost_nano[:] *= factor
        figures.expected_nano[:, :, 2:] = 0
        found = kernels.find_jobs([0], limits(), figures, ALONE, no_episodes(0))
        assert bool(len(found)) is opens


def test_an_ended_job_is_not_even_looked_at() -> None:
    """Its windows stay high for hours."""
    at = At((9 * USD,) * 4, (USD,) * 4, (1,) * 4, (True,) * 4, True)
    assert len(kernels.find_jobs([0], limits(), arrays([[at]]), ALONE, no_episodes(0))) == 0


def test_the_rest_of_a_difference_is_no_expectation() -> None:
    at = At((6 * USD,) * 4, (0,) * 4, (1,) * 4, (True,) * 4, False)
    figures = arrays([[at]])
    figures.expected_nano[:] = 1e-4
    assert len(kernels.find_jobs([0], limits(), figures, ALONE, no_episodes(0))) == 0


def test_what_does_not_fit_is_refused() -> None:
    """The kernels read without bounds checks."""
    at = At((USD,) * 4, (USD,) * 4, (1,) * 4, (True,) * 4, False)
    figures = arrays([[at]])
    for name in EpisodeArrays._fields:
        wrong = figures._replace(**{name: getattr(figures, name)[:0]})
        with pytest.raises(ValueError, match=name):
            as_arrays(wrong, 1, 1, WINDOWS)
    with pytest.raises(TypeError, match="cast"):
        as_arrays(figures._replace(elapsed_ms=figures.cost_nano), 1, 1, WINDOWS)  # type: ignore[arg-type]  # the fault
    for row in ([0], [-1, -1]):
        with pytest.raises(ValueError, match="places"):
            kernels.find_jobs([0], limits(), figures, np.array(row, np.int32), no_episodes(0))
    one = np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="2 ticks do not fit"):
        kernels.find_jobs([0, 1], limits(), figures, np.array([0], np.int32), no_episodes(1))
    with pytest.raises(ValueError, match="profile"):
        as_arrays(figures._replace(profile=np.array([2])), 1, 1, WINDOWS, 2)
    with pytest.raises(ValueError, match="2 ticks do not fit"):
        kernels.judge_jobs([0, 1], limits(), figures, one, one, no_episodes(1))
    with pytest.raises(ValueError, match="unequal"):
        kernels.judge_jobs([0], limits(), figures, one, one[:0], no_episodes(1))
    for found, place in ((one + 1, one), (one - 1, one), (one, one + 1), (one, one - 1)):
        with pytest.raises(ValueError, match="beyond"):
            kernels.judge_jobs([0], limits(), figures, found, place, no_episodes(1))


@pytest.mark.parametrize(("ticks", "jobs"), [(1, 100), (40, 4)])
def test_jobs_far_from_every_threshold_cost_next_to_nothing(
    monkeypatch: pytest.MonkeyPatch, ticks: int, jobs: int
) -> None:
    """Of each rule the window that most jobs miss is looked at, and no other."""
    plain(monkeypatch, kernels, conditions)
    reaches, looks = conditions.reaches, []

    def counted(cost: float, expected: float, ratio: float) -> bool:
        looks.append(ratio)
        return reaches(cost, expected, ratio)

    monkeypatch.setattr(conditions, "reaches", counted)
    cost = np.full((ticks, jobs, WINDOWS), 5e9)
    whole = np.ones(cost.shape, np.bool_)
    flat = np.zeros((ticks, jobs), np.bool_)
    none, of_job = np.zeros(flat.shape, np.int64), np.zeros(jobs, np.int64)
    zero = 0 * cost[:, :, 0]
    given = EpisodeArrays(
        cost[:, :, 0], cost[:, :, 0], cost, cost, 0 * cost, 0 * cost, cost.astype(np.int64), whole, flat, flat, flat, none, none, zero, zero, zero, np.zeros(jobs), of_job + 2**62, of_job
    )  # fmt: skip
    figures = as_arrays(given, ticks, jobs, WINDOWS)
    row = np.full(jobs, -1, np.int32)
    assert len(kernels.find_jobs(range(ticks), limits(), figures, row, no_episodes(0))) == 0
    assert len(looks) == ticks * jobs * BURN_RULES
