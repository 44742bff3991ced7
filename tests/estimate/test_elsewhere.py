"""Jobs that ran, priced elsewhere: the same place costs the same, and spot is judged with what it lost."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import TrainfareError
from streams.estimate.elsewhere import Elsewhere, compared, contexts
from streams.estimate.prices import price_instants
from streams.estimate.ran import attempts_of, paid_of
from tests.estimate.build import GPU_HOUR, HOUR_MS, book, job, paid, past, price

USD = 10**9
BOOK = book(
    price("spot", 3 * USD // 2, purchase="spot"),
    price("on-demand", 4 * USD, purchase="on_demand"),
    price("b", 7 * USD // 5, purchase="on_demand", gpu_type="B"),
)


def test_another_type_takes_longer_and_costs_less() -> None:
    ran = job(paid(GPU_HOUR, 4 * USD), purchase="on_demand")
    found = compared(ran, Elsewhere({"gpu_type": "B"}, Fraction("2.2")), BOOK)
    assert found.elsewhere.cost_nano == 3_080_000_000
    assert found.saved_nano == -920_000_000
    assert found.elsewhere.wall_clock_ms == 22 * HOUR_MS // 10
    assert found.break_even_speed == Fraction(20, 7)
    assert found.break_even_lost_nano is None


ON_SPOT = job(
    paid(12 * GPU_HOUR, 18 * USD, lost=4 * GPU_HOUR, preempted=4 * GPU_HOUR, preempted_nano=6 * USD),
    paid(10**9, 9, component="network", unit="bytes", preempted_nano=4),
    paid(GPU_HOUR, 3 * USD // 2, attempt=2, starting=True, lost=GPU_HOUR, preempted=GPU_HOUR, preempted_nano=3 * USD // 2),
    paid(8 * GPU_HOUR, 12 * USD, attempt=2),
    states=("preempted", "completed"),
    purchase="spot",
)  # fmt: skip


def test_off_spot_the_lost_work_is_not_paid() -> None:
    found = compared(ON_SPOT, Elsewhere({"purchase": "on_demand"}), BOOK)
    assert found.elsewhere.gpu_milli_ms == 16 * GPU_HOUR
    assert found.elsewhere.cost_nano == 64 * USD + 5
    assert (found.elsewhere.is_spot, found.elsewhere.lost_nano) == (False, 0)
    assert found.ran.lost_nano == 15 * USD // 2 + 4
    assert found.break_even_lost_nano == 64 * USD + 5 - (24 * USD + 5)


def test_on_spot_of_another_type_it_is_paid_there_too() -> None:
    there = Elsewhere({"gpu_type": "B"}, Fraction(2))
    found = compared(ON_SPOT, there, BOOK)
    assert found.elsewhere.gpu_milli_ms == 2 * 21 * GPU_HOUR
    assert found.elsewhere.cost_nano == 2 * 63 * USD // 2 + 9
    assert found.elsewhere.lost_nano == 15 * USD + 4
    assert found.break_even_lost_nano is None, "spot on both sides"


def test_a_job_without_gpus_takes_its_time_there_too() -> None:
    ran = job(paid(HOUR_MS, 0, component="overhead", unit="ms"))
    assert compared(ran, Elsewhere({}, Fraction(2)), BOOK).elsewhere.wall_clock_ms == 2 * HOUR_MS


def test_to_spot_its_own_preemptions_give_way_to_those_of_past_jobs() -> None:
    lost = 2 * GPU_HOUR
    ran = job(paid(10 * GPU_HOUR, 40 * USD, lost=lost, preempted=lost), purchase="on_demand")
    found = compared(ran, Elsewhere({"purchase": "spot"}, past=past(gpu=100, lost=20)), BOOK)
    assert found.elsewhere.gpu_milli_ms == 10 * GPU_HOUR
    assert (found.elsewhere.cost_nano, found.elsewhere.lost_nano) == (15 * USD, 3 * USD)
    assert found.break_even_lost_nano == 40 * USD - 12 * USD
    bare = compared(ran, Elsewhere({"purchase": "spot"}), BOOK)
    assert (bare.elsewhere.cost_nano, bare.elsewhere.lost_nano) == (12 * USD, 0)


def test_to_spot_what_failures_lost_is_lost_there_too() -> None:
    ran = job(paid(10 * GPU_HOUR, 40 * USD, lost=10 * GPU_HOUR), states=("failed",), purchase="on_demand")
    found = compared(ran, Elsewhere({"purchase": "spot"}, past=past(gpu=100, lost=20)), BOOK)
    assert found.elsewhere.gpu_milli_ms == 125 * GPU_HOUR // 10
    assert (found.elsewhere.cost_nano, found.elsewhere.lost_nano) == (75 * USD // 4, 15 * USD // 4)
    bare = compared(ran, Elsewhere({"purchase": "spot"}), BOOK)
    assert (bare.elsewhere.cost_nano, bare.elsewhere.lost_nano) == (15 * USD, 0)


def test_each_quantity_of_time_is_priced_once() -> None:
    prices = book(
        price("gpu", USD),
        price("lic", 10, component="license"),
        price("ctl", 100, component="overhead", per="job_hour"),
        price("ppl", 1_000, component="labor", per="job_hour"),
    )
    rows = [
        paid(GPU_HOUR, USD),
        paid(GPU_HOUR, 10, component="license"),
        paid(HOUR_MS, 100, component="overhead", unit="ms"),
        paid(HOUR_MS, 1_000, component="labor", unit="ms"),
        paid(HOUR_MS, 77, component="storage", unit="mib_ms"),
    ]
    for given_rows in (rows, rows[::-1]):
        found = compared(job(*given_rows), Elsewhere(), prices)
        assert found.elsewhere.parts == found.ran.parts
        assert found.elsewhere.gpu_milli_ms == GPU_HOUR


def test_prices_are_those_that_held_then() -> None:
    prices = book(price("gpu", USD), price("gpu", 3 * USD, from_ms=HOUR_MS))
    there = Elsewhere({"region": "r"})
    bare = job()
    assert price_instants(prices, contexts(bare, there).values(), -5, 2 * HOUR_MS) == [0, HOUR_MS]
    assert price_instants(prices, contexts(bare, there).values(), 0, HOUR_MS) == []
    ran = job(paid(GPU_HOUR, 0), paid(GPU_HOUR, 0, step=1), starts_ms=(0, HOUR_MS))
    assert compared(ran, there, prices).elsewhere.cost_nano == 4 * USD


def test_unpriced_elsewhere_is_no_answer() -> None:
    with pytest.raises(TrainfareError, match="purchase=reserved"):
        compared(ON_SPOT, Elsewhere({"purchase": "reserved"}), BOOK)


def _row(attempt: int, lost: int, *, starting: bool = False) -> dict[str, object]:
    return {
        "attempt": attempt, "component": "gpu", "unit": "gpu_milli_ms", "is_starting": int(starting), "step": 0,
        "amount": "9", "lost": str(lost), "usd": "0.000000009", "lost_usd": f"0.00000000{lost}",
    }  # fmt: skip


def test_lost_work_has_the_cause_that_lost_it() -> None:
    states = {1: "failed", 3: "preempted", 4: "completed"}
    attempts = attempts_of(
        {"attempt": number, "state": state, **dict.fromkeys(_FIELDS, "")} for number, state in states.items()
    )
    rows = [
        _row(1, 1, starting=True), _row(1, 2), _row(3, 3, starting=True), _row(3, 4), _row(4, 5, starting=True), _row(4, 0)
    ]  # fmt: skip
    found = paid_of(rows, attempts)
    assert [each.preempted_quantity for each in found] == [0, 0, 0, 4, 5, 0]
    assert [each.preempted_nano for each in found] == [0, 0, 0, 4, 5, 0]
    assert [each.lost_quantity for each in found] == [1, 2, 3, 4, 5, 0]


_FIELDS = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")

_ROWS = st.lists(
    st.tuples(
        st.integers(1, 10**15), st.integers(0, 100), st.integers(0, 100), st.integers(1, 3), st.booleans()
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda row: row[3:],
)


@given(_ROWS, st.integers(0, 10**12), st.integers(0, 10**12), st.fractions(Fraction(1, 100), 100))
def test_against_a_plain_sum_in_fractions(
    rows: list[tuple[int, int, int, int, bool]], spot_nano: int, other_nano: int, speed: Fraction
) -> None:
    spot = price("spot", spot_nano, purchase="spot")
    prices = book(spot, price("on-demand", other_nano, purchase="on_demand"))
    made = []
    for quantity, lost_percent, preempted_percent, attempt, starting in rows:
        lost = quantity * lost_percent // 100
        preempted = lost * preempted_percent // 100
        made.append(
            paid(
                quantity, round(Fraction(quantity * spot_nano, GPU_HOUR)), attempt=attempt, starting=starting, lost=lost,
                preempted=preempted, preempted_nano=round(Fraction(preempted * spot_nano, GPU_HOUR)),
            )
        )  # fmt: skip
    ran = job(*made, states=("preempted",) * 3, purchase="spot")
    same = compared(ran, Elsewhere(), prices)
    assert same.elsewhere.cost_nano == ran.cost_nano, "the same place costs the same"
    found = compared(ran, Elsewhere({"purchase": "on_demand"}, speed), prices)
    exact = [(each.quantity - each.preempted_quantity) * speed * other_nano / GPU_HOUR for each in made]
    assert found.elsewhere.cost_nano == sum(round(each) for each in exact)
    assert found.saved_nano == found.elsewhere.cost_nano - ran.cost_nano
    # At the break-even both sides cost the same.
    assert found.break_even_lost_nano is not None
    surviving_nano = found.ran.cost_nano - found.ran.lost_nano
    assert surviving_nano + found.break_even_lost_nano == found.elsewhere.cost_nano
    assert (found.saved_nano > 0) == (found.break_even_lost_nano > found.ran.lost_nano)


def test_an_attempt_that_began_after_they_were_read_is_left_out() -> None:
    attempts = attempts_of([{"attempt": 1, "state": "failed", **dict.fromkeys(_FIELDS, "")}])
    found = paid_of([_row(1, 2), _row(2, 3, starting=True), _row(2, 0)], attempts)
    assert [(each.attempt, each.lost_quantity) for each in found] == [(1, 2)]
