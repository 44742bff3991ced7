from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.units import Per, divisor, to_milli, usd_to_nano


def test_to_milli_takes_every_thousandth_as_a_literal_up_to_a_thousand() -> None:
    for milli in range(1_000_001):
        assert to_milli(float(f"{milli // 1000}.{milli % 1000:03d}")) == milli


@given(st.integers(0, 10**14))
def test_to_milli_takes_every_thousandth_of_a_count(milli: int) -> None:
    assert to_milli(float(f"{milli // 1000}.{milli % 1000:03d}")) == milli


@given(st.integers(0, 10**15).filter(lambda tenths: tenths % 10 != 0))
def test_to_milli_refuses_four_decimals(ten_thousandths: int) -> None:
    whole, decimals = divmod(ten_thousandths, 10_000)
    with pytest.raises(ValueError, match="three decimals"):
        to_milli(float(f"{whole}.{decimals:04d}"))


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_to_milli_refuses_what_is_not_finite(number: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        to_milli(number)


def test_to_milli_takes_integers_of_any_size() -> None:
    assert to_milli(10**400) == 10**403


@given(st.integers(0, 99_999), st.integers(0, 9), st.integers(0, 10**9 - 1), st.integers(0, 3))
def test_usd_to_nano_is_exact(whole: int, digits: int, nano: int, zeros: int) -> None:
    decimals = f"{nano:09d}"[:digits]
    text = "0" * zeros + str(whole) + (f".{decimals}" if decimals else "")
    assert usd_to_nano(text) == whole * 10**9 + int((decimals + "000000000")[:9])


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "1\n",
        "-1",
        "-0",
        "+1",
        ".5",
        "5.",
        "1e3",
        "1_0",
        "1,5",
        "0x1",
        "NaN",
        "inf",
        "\u0661",
        "1.0000000000",
        "100000",
        "99999999999999999999",
    ],
)
def test_usd_to_nano_refuses_what_is_no_plain_decimal_below_the_limit(text: str) -> None:
    with pytest.raises(ValueError, match=r"decimal string in \[0, 100000\)"):
        usd_to_nano(text)


def test_usd_to_nano_takes_the_largest_price() -> None:
    assert usd_to_nano("99999.999999999") == 10**14 - 1


@pytest.mark.parametrize(
    ("per", "gpus", "expected"),
    [
        (Per.gpu_hour, 1, 3_600_000_000),
        (Per.instance_hour, 8, 8 * 3_600_000_000),
        (Per.instance_hour, 0, 3_600_000_000),
        (Per.vcpu_hour, 1, 3_600_000_000),
        (Per.memory_gib_hour, 1, 3_600_000_000),
        (Per.job_hour, 1, 3_600_000),
        (Per.gib, 1, 2**30),
        (Per.gb, 1, 10**9),
        (Per.thousand_requests, 1, 1000),
        (Per.gib_month, 1, 1024 * 730 * 3_600_000),
    ],
)
def test_divisor_is_that_of_the_contract(per: Per, gpus: int, expected: int) -> None:
    assert divisor(per, gpus) == expected
