"""What one job burned at about the same time on enough earlier days is usual for it, and nothing else is."""

from __future__ import annotations

from fractions import Fraction

import pytest

from streams.engine.rules.own_days import EarlierAlert, OwnDays, own_days, own_reason

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
NOW_MS = 20_605 * DAY_MS + 9 * HOUR_MS + 33 * MINUTE_MS
USD = 10**9


def before(days: int, usd: int = 60, *, off_ms: int = 0, lasted_ms: int = 8 * HOUR_MS) -> EarlierAlert:
    """An alert so many days before, at about the same time of the day."""
    started_ms = NOW_MS - days * DAY_MS + off_ms
    return EarlierAlert(started_ms, started_ms + lasted_ms, usd * USD)


def test_what_three_days_reached_is_usual() -> None:
    of = own_days(NOW_MS, [before(1, 60), before(2, 61), before(3, 62), before(4, 200), before(5, 59)])
    assert of == OwnDays(NOW_MS, 61 * USD, 8 * HOUR_MS, 5)
    assert of is not None
    assert of.limit_at(NOW_MS, None) == round(1.2 * 61 * USD)
    assert own_reason(of) == (
        "usual for this job: on 5 of the last 14 days it cost up to $61/h from about this time on"
    )


@pytest.mark.parametrize(
    "earlier",
    [
        [],
        [before(1), before(2)],
        [before(1), before(1, off_ms=MINUTE_MS), before(1, off_ms=-HOUR_MS), before(2)],
        [before(1), before(2), before(15)],
        [before(1), before(2), before(3, off_ms=91 * MINUTE_MS)],
        [before(1), before(2), before(3, off_ms=-91 * MINUTE_MS)],
        [before(days, off_ms=-5 * HOUR_MS) for days in range(1, 15)],
        [before(2), before(3), before(1, lasted_ms=23 * HOUR_MS + MINUTE_MS)],
        [before(0, off_ms=-20 * MINUTE_MS, lasted_ms=MINUTE_MS), before(1), before(2)],
    ],
    ids=[
        "none",
        "two days",
        "often on two days",
        "long ago",
        "later on the third day",
        "earlier on the third day",
        "another time",
        "not over for an hour",
        "the same day",
    ],
)
def test_of_fewer_and_of_other_times_nothing_is_usual(earlier: list[EarlierAlert]) -> None:
    assert own_days(NOW_MS, earlier) is None


@pytest.mark.parametrize("off_ms", [-90 * MINUTE_MS, 90 * MINUTE_MS])
def test_about_the_same_time_is_within_what_clocks_change_by(off_ms: int) -> None:
    assert own_days(NOW_MS, [before(days, off_ms=off_ms) for days in (1, 2, 14)]) is not None


def test_the_greatest_of_a_day_counts_once() -> None:
    of = own_days(NOW_MS, [before(1, 50), before(1, 90, off_ms=HOUR_MS), before(2, 80), before(3, 70)])
    assert of is not None
    assert (of.usual, of.days) == (70 * USD, 3)


def test_what_grows_by_a_fifth_each_day_is_beyond_from_the_next_day_on() -> None:
    rates = [100.0 * 1.2**day for day in range(14)]
    for day in range(3, 14):
        earlier = [before(day - past, round(rates[past])) for past in range(day)]
        of = own_days(NOW_MS, earlier)
        assert of is not None
        assert rates[day] * USD > of.limit_at(NOW_MS, None)


def test_it_is_usual_for_as_long_as_it_lasted() -> None:
    of = own_days(NOW_MS, [before(days) for days in (1, 2, 3)])
    assert of is not None
    last_ms = NOW_MS + 8 * HOUR_MS * 6 // 5 + 10 * MINUTE_MS
    assert of.limit_at(last_ms, None) == 72 * USD
    assert of.limit_at(last_ms + 1, None) == -1


def test_its_kind_and_records_set_bounds() -> None:
    of = OwnDays(NOW_MS, 60 * USD, 8 * HOUR_MS, 3)
    assert of.limit_at(NOW_MS, 20 * USD) == 40 * USD, "twice what is usual for its kind"
    assert of.limit_at(NOW_MS, 50 * USD) == 72 * USD
    assert of._replace(factor=Fraction(2)).limit_at(NOW_MS, None) == 120 * USD
    assert of._replace(factor=Fraction(0)).limit_at(NOW_MS, None) == -1
