"""Money shared out: parts sum to the whole, each within one unit of its exact share, whatever the order."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.costs.shares import Rule, largest_remainder, share_out

TOTALS = st.integers(-(10**30), 10**30) | st.integers(-20, 20)
WEIGHTS = st.dictionaries(
    st.text(max_size=3), st.integers(0, 10**24) | st.integers(0, 3), min_size=1, max_size=12
)


@given(TOTALS, WEIGHTS)
def test_parts_sum_to_the_whole_and_are_within_a_unit_of_their_exact_share(
    total: int, weights: dict[str, int]
) -> None:
    parts = largest_remainder(total, weights)
    assert list(parts) == sorted(weights)
    assert sum(parts.values()) == total
    shares = weights if any(weights.values()) else dict.fromkeys(weights, 1)
    for key, part in parts.items():
        assert abs(part - Fraction(total * shares[key], sum(shares.values()))) < 1


@given(TOTALS, WEIGHTS)
def test_neither_order_nor_sign_changes_who_bears_what(total: int, weights: dict[str, int]) -> None:
    parts = largest_remainder(total, weights)
    assert largest_remainder(total, dict(reversed(weights.items()))) == parts
    assert largest_remainder(-total, weights) == {key: -part for key, part in parts.items()}


@given(TOTALS, WEIGHTS)
def test_a_greater_weight_never_bears_less_and_a_weight_of_zero_bears_nothing(
    total: int, weights: dict[str, int]
) -> None:
    parts = largest_remainder(total, weights)
    ordered = sorted(weights, key=weights.__getitem__)
    for lighter, heavier in pairwise(ordered):
        if weights[lighter] < weights[heavier]:
            assert abs(parts[lighter]) <= abs(parts[heavier])
    if any(weights.values()):
        assert all(parts[key] == 0 for key, weight in weights.items() if weight == 0)


def test_equal_remainders_go_to_the_smaller_key() -> None:
    assert largest_remainder(100, {"b": 1, "c": 1, "a": 1}) == {"a": 34, "b": 33, "c": 33}
    assert largest_remainder(-2, {("x", "b"): 5, ("x", "a"): 5, ("w", "z"): 5}) == {
        ("w", "z"): -1,
        ("x", "a"): -1,
        ("x", "b"): 0,
    }


def test_the_rules() -> None:
    weights = {"speech": 1, "vision": 3}
    assert share_out(9, weights, Rule.EVEN) == {"speech": 5, "vision": 4}
    assert share_out(9, weights, Rule.WEIGHTED) == {"speech": 2, "vision": 7}
    assert share_out(9, weights, Rule.NONE) == {"speech": 0, "vision": 0}


def test_nobody_and_negative_weights_are_refused() -> None:
    assert largest_remainder(0, dict[str, int]()) == {}
    with pytest.raises(ValueError, match="nobody"):
        largest_remainder(1, dict[str, int]())
    with pytest.raises(ValueError, match="negative"):
        largest_remainder(1, {"a": 2, "b": -1})
