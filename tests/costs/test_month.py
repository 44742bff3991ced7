"""The forecast of a month: what was spent, and what the days before say of the rest."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from streams.costs.month import month_forecast, month_request

#: Sunday, 15 November 2026, after the hour that began at 13:00.
NOON = datetime(2026, 11, 15, 14, tzinfo=UTC)


def at_ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)


def days(first: date, last: date, usd: str = "100") -> dict[date, Decimal]:
    return {first + timedelta(days=back): Decimal(usd) for back in range((last - first).days + 1)}


def test_even_days_go_on_as_they_were() -> None:
    usd = days(date(2026, 10, 1), date(2026, 11, 14)) | {date(2026, 11, 15): Decimal(50)}
    found = month_forecast(usd, date(2026, 10, 1), at_ms(NOON))
    assert (found.month, found.left_h, found.basis_days) == ("2026-11", 370, 28)
    assert found.spent_usd == 1450
    rest = Decimal("41.666666667") + 15 * 100
    assert found.forecast_usd == found.low_usd == found.high_usd == 1450 + rest


def test_each_weekday_costs_what_it_cost_and_the_weeks_give_the_range() -> None:
    usd = days(date(2026, 10, 18), date(2026, 11, 14))
    for day in usd:
        usd[day] = Decimal(0) if day.weekday() >= 5 else Decimal(100)
    for back in range(7):  # the last week cost twice as much
        usd[date(2026, 11, 14) - timedelta(days=back)] *= 2
    found = month_forecast(usd, date(2026, 10, 1), at_ms(NOON))
    # 11 weekdays are left: 125 each on average.
    assert found.forecast_usd == found.spent_usd + 11 * 125
    assert found.low_usd == found.spent_usd + 11 * 100
    assert found.high_usd == found.spent_usd + 11 * 200
    assert "as its weekday cost on average in the 28 days" in found.basis


def test_a_young_store_judges_by_the_days_it_has_and_by_none_not_at_all() -> None:
    usd = {date(2026, 11, 13): Decimal(10), date(2026, 11, 14): Decimal(30), date(2026, 11, 15): Decimal(5)}
    found = month_forecast(usd, date(2026, 11, 13), at_ms(NOON))
    assert found.basis_days == 2
    assert found.mean_usd_per_day == 20
    left = Decimal(370) / 24
    assert found.forecast_usd == round(45 + 20 * left, 9)
    assert found.low_usd == round(45 + 10 * left, 9)
    assert found.high_usd == round(45 + 30 * left, 9)
    none = month_forecast({date(2026, 11, 15): Decimal(5)}, date(2026, 11, 15), at_ms(NOON))
    assert none.spent_usd == 5
    assert none.forecast_usd is None
    assert none.low_usd is None
    assert "not forecast" in none.basis


def test_days_without_costs_count_as_nothing_and_cost_nothing() -> None:
    found = month_forecast({date(2026, 11, 1): Decimal(28)}, date(2026, 10, 1), at_ms(NOON))
    assert found.mean_usd_per_day == 1
    assert found.low_usd == found.spent_usd, "a week without costs"


def test_the_last_hour_of_a_month_is_its_own_and_nothing_is_left() -> None:
    midnight = datetime(2026, 12, 1, tzinfo=UTC)
    found = month_forecast(days(date(2026, 11, 1), date(2026, 11, 30)), date(2026, 11, 1), at_ms(midnight))
    assert (found.month, found.left_h) == ("2026-11", 0)
    assert found.spent_usd == found.forecast_usd == 3000


def test_it_reads_the_month_and_four_weeks_before_today() -> None:
    early = datetime(2026, 11, 3, 5, tzinfo=UTC)
    asked = month_request([("team", "vision")], at_ms(early))
    assert (asked.from_ms, asked.to_ms) == (at_ms(datetime(2026, 10, 6, tzinfo=UTC)), at_ms(early))
    assert asked.where == (("team", "vision"),)
    late = month_request([], at_ms(datetime(2026, 11, 30, 5, tzinfo=UTC)))
    assert late.from_ms == at_ms(datetime(2026, 11, 1, tzinfo=UTC))
