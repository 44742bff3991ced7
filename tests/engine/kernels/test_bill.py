"""Money kernels against Python's integers over the whole range of int64."""

from __future__ import annotations

from typing import cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from streams.engine.kernels.bill import MAX_COST_NANO, bill_rows, cost_nano, mul_div_floor
from streams.engine.kernels.wide import mul_div_mod, saturating_add, saturating_mul
from tests.engine.kernels import naive

INT64_MAX = 2**63 - 1

# Every magnitude is as likely as any other, and the borders of the digit sizes are hit often.
edges = st.builds(
    lambda bits, off: min(max((1 << bits) + off, 0), INT64_MAX), st.integers(0, 63), st.integers(-2, 2)
)
wide = st.one_of(
    edges, st.builds(lambda bits, low: low & ((1 << bits) - 1), st.integers(0, 63), st.integers(0, INT64_MAX))
)
positive = wide.map(lambda value: max(value, 1))
usd = st.one_of(st.integers(0, 10**14 - 1), st.integers(0, 10**11))
divisors = st.one_of(
    st.sampled_from([3_600_000_000, 3_600_000, 2**30, 10**9, 1000, 1024 * 730 * 3_600_000]),
    st.integers(1, 10**6).map(lambda gpus: 3_600_000_000 * gpus),
    st.integers(1, 3_600_000_000_000_000),
)


def i64(value: int) -> int:
    """A numpy scalar, which overflows where the compiled code would."""
    return cast("int", np.int64(value))


@given(wide, wide, positive)
@example(2**62, 5, 7)  # the product of the remainder is one less than a multiple of the divisor
@example(2**62, 5, 2**61 - 1)
def test_mul_div_equals_python_over_all_of_int64(a: int, b: int, d: int) -> None:
    """Quotient and remainder, saturated where the quotient passes 63 bits."""
    quotient, rest = mul_div_mod(i64(a), i64(b), i64(d))
    assert (int(quotient), int(rest)) == naive.mul_div_mod(a, b, d)
    assert int(mul_div_floor(i64(a), i64(b), i64(d))) == int(quotient)


@given(wide, wide)
def test_saturating_helpers(a: int, b: int) -> None:
    """Sums and products stop at int64 max."""
    assert int(saturating_add(i64(a), i64(b))) == min(a + b, INT64_MAX)
    assert int(saturating_mul(i64(a), i64(b))) == min(a * b, INT64_MAX)


@given(st.lists(st.tuples(wide, usd, divisors), max_size=30))
def test_cost_equals_python(rows: list[tuple[int, int, int]]) -> None:
    """Half to even, capped at Decimal(18, 9)."""
    want = [naive.cost_nano(*row) for row in rows]
    columns = [np.array([row[k] for row in rows], np.int64) for k in range(3)]
    cost, capped = cost_nano(*columns)
    assert cost.tolist() == [value for value, _ in want]
    assert capped == sum(flag for _, flag in want)


@given(st.integers(0, 10**17), st.integers(1, 10**6))
def test_exact_halves_go_to_the_even_side(half_units: int, k: int) -> None:
    """A product of exactly n + 1/2 rounds to even n."""
    cost, _ = cost_nano([2 * half_units + 1], [k], [2 * k])
    assert cost[0] == half_units + (half_units & 1)


@given(
    st.lists(st.tuples(usd, divisors), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), wide, st.integers(0, 3)), max_size=30),
)
def test_bill_rows_prices_quantity_and_lost_part(
    prices: list[tuple[int, int]], rows: list[tuple[int, int, int]]
) -> None:
    """Each row by the price of its line; the lost part rounds on its own."""
    line = np.array([k % len(prices) for k, _, _ in rows], np.int32)
    quantity = [q for _, q, _ in rows]
    lost = [q * part // 3 for _, q, part in rows]
    cost, lost_cost, capped = bill_rows(
        line,
        np.array(quantity, np.int64),
        np.array(lost, np.int64),
        np.array([p[0] for p in prices], np.int64),
        np.array([p[1] for p in prices], np.int64),
    )
    want = [naive.cost_nano(q, *prices[k]) for k, q in zip(line, quantity, strict=True)]
    want_lost = [naive.cost_nano(q, *prices[k]) for k, q in zip(line, lost, strict=True)]
    assert cost.tolist() == [value for value, _ in want]
    assert lost_cost.tolist() == [value for value, _ in want_lost]
    assert capped == sum(flag for _, flag in want)


def test_the_cap_is_reported() -> None:
    """The greatest cost stands, one more is capped."""
    cost, capped = cost_nano([MAX_COST_NANO, MAX_COST_NANO + 1, INT64_MAX], [1, 1, 10**14 - 1], [1, 1, 1])
    assert cost.tolist() == [MAX_COST_NANO] * 3
    assert capped == 2


@pytest.mark.parametrize("row", [(-1, 1, 1), (1, -1, 1), (1, 1, 0)])
def test_values_out_of_range_are_refused(row: tuple[int, int, int]) -> None:
    """A negative quantity or price, or no divisor, never becomes money."""
    with pytest.raises(ValueError, match="row 1"):
        cost_nano([5, row[0]], [5, row[1]], [5, row[2]])


@pytest.mark.parametrize("line", [-1, 1])
def test_a_line_without_a_price_is_refused(line: int) -> None:
    """The kernel reads without bounds checks, so the line is checked."""
    with pytest.raises(ValueError, match=f"line {line}"):
        bill_rows(np.array([line], np.int32), [1], [0], [1], [1])
    with pytest.raises(ValueError, match="out of range"):
        bill_rows(np.array([0], np.int32), [1], [0], [1], [0])


def test_wrong_types_and_lengths_are_refused() -> None:
    """No silent cast, no read past an array."""
    with pytest.raises(TypeError):
        cost_nano([1.5], [1], [1])
    with pytest.raises(ValueError, match="unequal"):
        cost_nano([1, 2], [1], [1])
