"""Amortised prices: the schedule sums to the cent, the prices are the closed form."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.prices.amortize import Purchase, hour_prices, largest_remainder, schedule


@given(
    purchase=st.integers(0, 10**12),
    kept=st.integers(0, 100),
    months=st.integers(1, 600),
    per=st.sampled_from([1, 12]),
)
def test_the_schedule_sums_to_purchase_less_salvage(purchase: int, kept: int, months: int, per: int) -> None:
    salvage = purchase * kept // 100
    periods = schedule(Purchase(purchase, salvage, months, 8, Decimal(1)), per)
    assert sum(each.depreciation for each in periods) == purchase - salvage
    assert sum(each.months for each in periods) == months
    assert periods[0].opening == purchase
    assert periods[-1].closing == salvage
    for before, after in pairwise(periods):
        assert before.closing == after.opening
    for each in periods:  # the closed form, to the cent
        exact = Decimal(purchase - salvage) * each.months / months
        assert abs(each.depreciation - exact) < 1
        assert each.closing == each.opening - each.depreciation


@given(st.integers(0, 10**9), st.lists(st.integers(1, 1_000), min_size=1, max_size=50))
def test_largest_remainder_is_exact_and_fair(total: int, weights: list[int]) -> None:
    parts = largest_remainder(total, weights)
    assert sum(parts) == total
    for part, weight in zip(parts, weights, strict=True):
        assert abs(part * sum(weights) - total * weight) < sum(weights)


def test_equal_remainders_go_to_the_earlier() -> None:
    assert largest_remainder(100, [1, 1, 1]) == [34, 33, 33]
    assert largest_remainder(5, [12, 12, 6]) == [2, 2, 1]


@given(
    cents=st.integers(0, 10**12),
    months=st.integers(1, 600),
    gpus=st.integers(1, 10_000),
    use=st.integers(1, 1_000),
    watts=st.integers(0, 10**6),
)
def test_prices_are_the_closed_form(cents: int, months: int, gpus: int, use: int, watts: int) -> None:
    bought = Purchase(
        cents, 0, months, gpus, Decimal(use) / 1_000, Decimal(watts) / 1_000, Decimal("1.3"), Decimal("0.12"),
        Decimal(50_000),
    )  # fmt: skip
    hours = Decimal(months) * 730
    paid = hours * gpus * use / 1_000
    costs = (
        Decimal(cents) / 100,
        Decimal(watts) / 1_000 * Decimal("1.3") * Decimal("0.12") * hours,
        Decimal(50_000) * months / 12,
    )
    for usd_nano, cost in zip(hour_prices(bought), costs, strict=True):
        assert abs(usd_nano - cost / paid * 10**9) <= Decimal("0.500001")
        # What is paid at this price, over the whole life, is the cost but for the rounding of the price.
        assert abs(usd_nano * paid / 10**9 - cost) <= paid * Decimal("0.500001") / 10**9


@pytest.mark.parametrize(("cents", "nano"), [(1, 0), (2, 0), (3, 0)])
def test_half_a_nano_dollar_goes_to_even(cents: int, nano: int) -> None:
    hours = Decimal(600 * 730 * 1_000_000)
    exact = (Decimal(cents) / 100 / hours * 10**9).quantize(Decimal(1), ROUND_HALF_EVEN)
    assert hour_prices(Purchase(cents, 0, 600, 1_000_000, Decimal(1))).hardware == exact == nano
