"""Forecasts: each component once by its price, retries by what past jobs lost, and what is missing is named."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import TrainfareError, WrongUseError
from streams.estimate import past as past_jobs
from streams.estimate.amounts import half_even
from streams.estimate.forecast import Plan, forecast
from streams.estimate.prices import check_gpu_type, context_of, nearer, price_book
from streams.estimate.request import check_purchase, gpu_milli_of, speed_of, work_ms_of
from tests.estimate.build import HOUR_MS, book, past, price

H100 = {"gpu_type": "H100"}


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**20))
def test_rounding_is_that_of_exact_fractions(numerator: int, denominator: int) -> None:
    assert half_even(numerator, denominator) == round(Fraction(numerator, denominator))


def test_price_times_time_without_history() -> None:
    prices = book(
        price("h100", 2_500_000_000, gpu_type="H100"),
        price("control", 100_000_000, component="overhead", per="job_hour"),
    )
    found = forecast(Plan(8_000, 10 * HOUR_MS, H100), prices, None, at_ms=1)
    (case,) = found.cases
    assert (found.expected, case.name, case.cost_nano) == ("planned", "planned", 201_000_000_000)
    assert [(part.component, part.cost_nano) for part in case.parts] == [
        ("gpu", 200_000_000_000),
        ("overhead", 1_000_000_000),
    ]


def test_retries_and_what_follows_gpu_time_come_from_past_jobs() -> None:
    prices = book(price("h100", 1_000_000_000, gpu_type="H100"))
    before = past(gpu=100 * HOUR_MS, lost=20 * HOUR_MS, network=50)
    found = forecast(Plan(1_000, 4 * HOUR_MS, H100), prices, before, at_ms=1)
    cases = {case.name: case for case in found.cases}
    assert found.expected == "with_retries"
    assert list(cases) == ["planned", "with_retries", "median", "p90"]
    assert [case.wall_clock_ms for case in found.cases] == [each * HOUR_MS for each in (4, 5, 2, 5)]
    parts = {part.component: part for part in cases["with_retries"].parts}
    assert parts["gpu"].cost_nano == 5_000_000_000
    assert (parts["network"].price, parts["network"].cost_nano) == (None, 5_000 * 50 // 100)


def test_a_price_of_time_is_not_counted_again_from_past_jobs() -> None:
    prices = book(
        price("h100", 10, gpu_type="H100"), price("cpu", 7_000, component="compute", per="job_hour")
    )
    found = forecast(Plan(1_000, HOUR_MS, H100), prices, past(compute=10**12), at_ms=1)
    assert [part.cost_nano for part in found.cases[0].parts if part.component == "compute"] == [7_000]


def test_without_hours_the_median_is_expected() -> None:
    prices = book(price("h100", 10, gpu_type="H100"))
    found = forecast(Plan(1_000, None, H100), prices, past(), at_ms=1)
    assert (found.expected, [case.name for case in found.cases]) == ("median", ["median", "p90"])


def test_past_jobs_that_lost_everything_say_nothing_of_retries() -> None:
    found = forecast(Plan(1_000, HOUR_MS, H100), book(price("any", 10)), past(gpu=5, lost=5), at_ms=1)
    assert found.expected == "planned"


@given(
    st.integers(1, 10**8), st.integers(1, 10**10), st.integers(0, 10**14), st.integers(1, 10**12), st.data()
)
def test_costs_are_exact(gpu_milli: int, work_ms: int, usd_nano: int, gpu: int, data: st.DataObject) -> None:
    lost = data.draw(st.integers(0, gpu - 1))
    prices = book(price("any", usd_nano))
    found = forecast(Plan(gpu_milli, work_ms), prices, past(gpu=gpu, lost=lost), at_ms=0)
    planned, retried = found.cases[:2]
    assert planned.cost_nano == round(Fraction(gpu_milli * work_ms * usd_nano, HOUR_MS * 1_000))
    assert retried.wall_clock_ms == round(work_ms * Fraction(gpu, gpu - lost)) >= work_ms
    assert retried.cost_nano >= planned.cost_nano


@pytest.mark.parametrize(
    ("fields", "at_ms", "said"),
    [
        ({"gpu_type": "H100", "region": "eu"}, 5, "region=eu, gpu_type=H100 at 1970-01-01T00:00:00Z; the nearest, h100, asks for region=us"),
        ({"gpu_type": "H100", "region": "us"}, -9, "the nearest, h100, asks for a time from 1970-01-01T00:00:00Z on"),
    ],
)  # fmt: skip
def test_the_missing_price_is_named(fields: dict[str, str], at_ms: int, said: str) -> None:
    prices = book(price("h100", 10, gpu_type="H100", region="us"), price("a", 1, gpu_type="A", region="as"))
    with pytest.raises(TrainfareError, match="unpriced: no SKU of component gpu") as caught:
        forecast(Plan(1_000, HOUR_MS, fields), prices, None, at_ms)
    assert said in str(caught.value)


def test_without_a_type_of_gpu_the_types_are_named() -> None:
    others = [price("node", 1, instance_type="i"), price("b", 1, gpu_type="B", region="as")]
    with pytest.raises(TrainfareError, match="applies to usage without any price field at") as caught:
        forecast(Plan(1_000, HOUR_MS), book(*others), None, 0)
    assert not isinstance(caught.value, WrongUseError)
    typed = [price("h100", 10, gpu_type="H100"), price("a", 1, gpu_type="A")]
    with pytest.raises(WrongUseError, match=r"name --gpu-type, one of A, H100$"):
        forecast(Plan(1_000, HOUR_MS), book(*others, *typed), None, 0)


def test_a_nearer_price_is_named_with_what_it_asks_for() -> None:
    own = price("own", 1, gpu_type="H100", cluster="venus", purchase="on_prem")
    prices = book(price("cloud", 10, gpu_type="H100"), own, price("mars", 1, cluster="mars", purchase="spot"))
    named = context_of({"gpu_type": "H100", "cluster": "venus"}, "", "")
    assert nearer(prices, named, "cloud", 0) == "own is nearer, but asks for purchase=on_prem"
    assert nearer(prices, named, "cloud", -1) is None, "not yet in force"
    for fields in (H100, {**H100, "cluster": "venus", "purchase": "on_demand"}):
        assert nearer(prices, context_of(fields, "", ""), "cloud", 0) is None


def test_an_empty_book_says_how_to_fill_it() -> None:
    with pytest.raises(TrainfareError, match="prices load"):
        forecast(Plan(1_000, HOUR_MS), book(), None, 0)


def test_an_unknown_type_of_gpu_is_refused_with_those_known() -> None:
    prices = book(price("h100", 10, gpu_type="H100"))
    check_gpu_type(prices, "V100", ["V100", ""])
    check_gpu_type(prices, "nvidia_h100_80gb", [])
    check_gpu_type(prices, "", [])
    check_gpu_type(book(price("any", 1)), "X", [])
    with pytest.raises(TrainfareError, match="'H1OO': no price and no past job has it; known: H100, V100"):
        check_gpu_type(prices, "H1OO", ["V100", ""])


def test_the_stored_book_is_the_published_one() -> None:
    event = price("h100", 2_500_000_001, from_ms=7, gpu_type="H100")
    row = {
        "sku": "h100", "component": "gpu", "usd": "2.500000001", "per": "gpu_hour", "gpus": 1, "effective_ms": 7,
        "match": {"gpu_type": "H100"}, "source": "t", "id": "h100@7", "time_ms": 0,
    }  # fmt: skip
    assert price_book([row]).events == [event]


# -- kinds -------------------------------------------------------------------------------------------------

NAMES = {
    "team": "v",
    "project": "",
    "experiment": "",
    "gpu_type": "H100",
    "purchase": "spot",
    "gpus": "8.000",
}


def test_kinds_go_from_narrow_to_wide_and_leave_out_what_is_not_named() -> None:
    assert past_jobs.kinds(NAMES) == [
        ("team", "gpu_type", "purchase", "gpus"),
        ("gpu_type", "purchase", "gpus"),
        ("gpu_type", "purchase"),
    ]
    assert past_jobs.kinds({"gpus": "1.000"}) == [("gpus",)]
    assert past_jobs.kinds({}) == []


@given(st.lists(st.integers(0, 12), min_size=1, max_size=5).map(sorted))
def test_the_narrowest_kind_with_enough_jobs_is_taken(counts: list[int]) -> None:
    wanted: list[past_jobs.Kind] = [(str(place),) for place in range(len(counts))]
    kind = past_jobs.chosen(wanted, {f"jobs{place}": count for place, count in enumerate(counts)})
    if kind is None:
        assert max(counts) == 0
        return
    place = int(kind[0])
    assert counts[place] >= 5 or counts[place] == max(counts)
    assert all(count < min(5, max(counts)) for count in counts[:place])


@given(st.lists(st.integers(0, 10**10), min_size=1, max_size=30))
def test_quantiles_lie_between_two_times(times_ms: list[int]) -> None:
    ordered = sorted(times_ms)
    row = {"jobs": len(ordered), "tried": len(ordered)}
    for name, tenths in (("median", 5), ("p90", 9)):
        low, tenths_after = divmod((len(ordered) - 1) * tenths, 10)
        row |= {f"{name}_low": ordered[low], f"{name}_high": ordered[low + (tenths_after > 0)]}
        row[f"{name}_tenths"] = tenths_after
    hours = {"gpu": 0, "lost_gpu": 0, "compute": "0", "network": "0", "storage": "0"}
    found = past_jobs.past_of((), {}, row | hours)
    exact = [Fraction(len(ordered) - 1) * tenths / 10 for tenths in (5, 9)]
    between = [
        ordered[int(at)] + (at - int(at)) * (ordered[min(int(at) + 1, len(ordered) - 1)] - ordered[int(at)])
        for at in exact
    ]
    assert [found.median_ms, found.p90_ms] == [round(each) for each in between]


# -- what a user may ask -----------------------------------------------------------------------------------


def test_numbers_are_read_exactly() -> None:
    assert (gpu_milli_of("0.125"), gpu_milli_of("8")) == (125, 8_000)
    assert (work_ms_of("10"), work_ms_of("0.5"), work_ms_of("0.00000001")) == (10 * HOUR_MS, HOUR_MS // 2, 1)
    assert speed_of("2.2") == Fraction(11, 5)


@pytest.mark.parametrize("text", ["0", "-1", "nan", "inf", "1e9", "1e-400", "eight", "", "9" * 60, "1_0x"])
def test_what_is_no_number_is_refused(text: str) -> None:
    for read in (gpu_milli_of, work_ms_of, speed_of):
        with pytest.raises(WrongUseError, match="a number above 0"):
            read(text)


def test_other_refusals() -> None:
    with pytest.raises(WrongUseError, match="at most three decimals"):
        gpu_milli_of("0.1234")
    check_purchase("")
    check_purchase("reserved")
    with pytest.raises(WrongUseError, match="one of on_demand, spot, reserved, on_prem"):
        check_purchase("free")
