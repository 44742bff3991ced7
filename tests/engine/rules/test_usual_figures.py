"""What is usual for a kind of jobs, computed by hand; a plain twin says the same of drawn histories."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.engine.rules.formatting import SENTENCE_AT_MOST
from streams.engine.rules.rule import FigureKind
from streams.engine.rules.similar_jobs import Similarity
from streams.engine.rules.usual_figures import (
    HISTORY_MS,
    HourCost,
    ReachedFigure,
    UsualFigure,
    first_beyond,
    greatest_rates,
    greatest_traffic,
    history_span,
    kinds_of,
    reason,
    rolling_hours,
    usual_of,
)

MINUTE = 60_000
HOUR = 60 * MINUTE
DAY = 24 * HOUR
USD = 10**9


def reached(*figures: int, days: int = 2) -> list[ReachedFigure]:
    """Jobs that ended on so many days in turn."""
    return [ReachedFigure(place % days * DAY + 5, figure) for place, figure in enumerate(figures)]


@pytest.mark.parametrize(
    ("jobs", "usual"),
    [
        (reached(100, 100, 100, 100), 0),
        (reached(100, 100, 100, 100, 100), 100),
        (reached(140, 120, 110, 100, 90), 110),
        (reached(900, 900, 1, 1, 1, 1), 1),
        (reached(900, 900, 0, 0, 0, 0), 0),
        (reached(50, 40, 30, 20, 10, days=1), 0),
        # The three greatest are of one day: what a job of another day reached, too, is usual.
        ([*reached(90, 80, 70, 60, days=1), ReachedFigure(DAY, 50), ReachedFigure(DAY, 1)], 50),
    ],
    ids=["four jobs", "five", "the third greatest", "two faults", "nothing", "one day", "another day"],
)
def test_what_three_of_five_jobs_of_two_days_reached_is_usual(jobs: list[ReachedFigure], usual: int) -> None:
    assert usual_of(jobs) == usual
    assert usual_of(jobs[::-1]) == usual


@given(
    st.lists(
        st.builds(ReachedFigure, st.integers(0, 3 * DAY), st.integers(0, 9)),
        max_size=12,
        unique_by=lambda j: j,
    )
)
def test_it_is_the_greatest_that_so_many_reached(jobs: list[ReachedFigure]) -> None:
    found = 0
    for figure in range(1, 10):
        those = [each for each in jobs if each.figure >= figure]
        if len(jobs) >= 5 and len(those) >= 3 and len({each.ended_ms // DAY for each in those}) >= 2:
            found = figure
    assert usual_of(jobs) == found


@pytest.mark.parametrize(
    ("at_ms", "day"),
    [(10 * DAY + HOUR, 10), (10 * DAY + HOUR - 1, 9), (11 * DAY - 1, 10), (11 * DAY + HOUR - 1, 10)],
)
def test_the_history_is_that_of_whole_days_that_are_surely_stored(at_ms: int, day: int) -> None:
    assert history_span(at_ms) == (day * DAY - HISTORY_MS, day * DAY)


def test_a_team_is_no_kind() -> None:
    assert [each.by for each in kinds_of("train-7", "vision", "llama")] == ["experiment", "name"]
    assert kinds_of("-7", "vision", "") == []


def cost(job_id: str, hour: int, minutes: int, accrued: int, traffic: int = 0) -> HourCost:
    return HourCost(job_id, hour * HOUR, minutes * MINUTE, accrued * USD, traffic * USD)


def test_a_rate_is_that_of_the_time_that_a_job_ran_in_an_hour_whatever_rows_it_has() -> None:
    hours = [cost("a", 0, 30, 5), cost("a", 1, 20, 10), cost("a", 1, 40, 15), cost("a", 2, 4, 99)]
    # $10/h, then $25/h; four minutes are no rate.
    assert greatest_rates(hours, 10 * USD) == {"a": 25 * USD}


@pytest.mark.parametrize(("expected", "counts"), [(4, False), (5, True), (10, True), (20, True), (21, False)])
def test_only_jobs_that_began_at_about_the_expected_rate_are_alike(expected: int, counts: bool) -> None:
    hours = [cost("a", 1, 60, 40), cost("a", 0, 60, 10)]
    assert greatest_rates(hours, expected * USD) == ({"a": 40 * USD} if counts else {})


def test_traffic_is_that_of_an_hour_and_half_an_hour_at_least() -> None:
    hours = [
        cost("a", 0, 40, 1, 80),
        cost("a", 1, 60, 1, 100),
        cost("b", 0, 10, 1, 30),
        cost("c", 3, 0, 0, 7),
    ]
    assert greatest_traffic(hours) == {"a": 120 * USD, "b": 60 * USD, "c": 7 * USD}


def test_an_hour_before_an_instant_is_sixty_minutes() -> None:
    minutes = {minute * MINUTE: 1 + (minute == 59) for minute in range(120)}
    asked = [0, 30 * MINUTE, HOUR, HOUR + MINUTE, 2 * HOUR, 4 * HOUR]
    assert [nano for _, nano in rolling_hours(minutes, asked)] == [0, 30, 61, 61, 60, 0]


def usual(kind: FigureKind, figure: int, name: str = "train") -> UsualFigure:
    return UsualFigure(
        Similarity("vision", "name", name), kind, figure, (2 * figure, figure, figure, 0, 0, 0)
    )


def test_what_is_usual_may_grow_by_a_fifth() -> None:
    of = usual("traffic", 100 * USD)
    assert first_beyond([(1, 120 * USD)], lambda _: of.limit) is None
    assert first_beyond([(1, 120 * USD), (2, 120 * USD + 1), (3, 999 * USD)], lambda _: of.limit) == 2


def test_of_a_length_two_checks_of_the_rule_say_nothing() -> None:
    assert usual("length", 50 * MINUTE).limit == 70 * MINUTE


@pytest.mark.parametrize(
    ("kind", "figure", "said"),
    [
        ("traffic", 140 * USD, "had up to $140/h of traffic"),
        ("rate", 240 * USD, "cost up to $240/h"),
        ("length", 65 * MINUTE, "had such an alert for up to 1 h 5 min"),
    ],
)
def test_the_reason_says_how_many_jobs_reached_how_much(kind: FigureKind, figure: int, said: str) -> None:
    assert reason(usual(kind, figure)) == f"usual for jobs named train: 3 of the last 6 {said}"
    long = reason(usual(kind, figure, "\U0001f600" * 300))
    assert len(long) <= SENTENCE_AT_MOST
    assert said in long
