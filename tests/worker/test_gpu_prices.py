"""The rule `price_jump` for prices that are far from the others of the same GPUs."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.engine.ledger_rules.gpu_prices import GpuPrices
from streams.engine.pricing.book import PriceBook
from tests.property.profile import PROFILE
from tests.worker.ledger_lab import MINUTE_MS, T0
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

H100 = {"gpu_type": "H100"}
SPOT = {**H100, "purchase": "spot"}


def jumps(world: World, hours: float = 1) -> list[tuple[str, str, int]]:
    """(SKU, status, minute) of what is told."""
    return [
        (each.subject_name, each.status, (each.changed_ms - T0) // MINUTE_MS)
        for each in world.look(hours)
        if each.rule == "price_jump"
    ]


def test_a_first_price_ten_times_the_others_of_its_gpus_is_told_in_its_minute(world: World) -> None:
    for sku, usd in (("a", 2.5), ("b", 3.0)):
        world.price(sku, usd, 0, match=H100)
    world.price("wrong", 25, 10, match={"gpu_type": "NVIDIA H100 80GB HBM3", "region": "eu"})
    (alert,) = [each for each in world.look(0.5) if each.rule == "price_jump"]
    assert (alert.subject_name, alert.severity, (alert.changed_ms - T0) // MINUTE_MS) == (
        "wrong",
        "ticket",
        11,
    )
    assert alert.summary == (
        "price wrong is $25.00 a gpu_hour, 8.3x that of b, the nearest of NVIDIA H100 80GB HBM3; is it right? A revision with the same"
        " `effective_ms` corrects it"
    )
    works(world, alert)


def test_a_price_below_a_third_of_the_lowest_is_told(world: World) -> None:
    for sku, usd in (("a", 2.5), ("b", 3.0)):
        world.price(sku, usd, 0, match=H100)
    world.price("cents", 0.025, 10, match=H100)
    assert jumps(world) == [("cents", "firing", 11)]


def test_prices_that_differ_as_they_do_are_none(world: World) -> None:
    for sku, usd in (("a", 2.5), ("b", 3.0), ("c", 7.4), ("d", 0.9)):
        world.price(sku, usd, 0, match=H100)
    world.price("spot", 0.6, 0, match=SPOT)  # beside no other of spot
    world.price("l4", 0.2, 0, match={"gpu_type": "L4"})
    world.price("any", 50, 0)  # of no type of GPU
    assert jumps(world) == []


def test_spot_prices_are_compared_with_spot_prices(world: World) -> None:
    world.price("demand", 12, 0, match=H100)
    world.price("spot-a", 2, 0, match=SPOT)
    world.price("spot-b", 11, 10, match=SPOT)
    assert jumps(world) == [("spot-b", "firing", 11)]


def test_a_price_that_was_as_far_before_is_no_news(world: World) -> None:
    for sku, usd in (("a", 2.5), ("b", 3.0)):
        world.price(sku, usd, 0, match=H100)
    world.price("dear", 12, 10, match=H100)
    world.price("dear", 13, 100, match=H100)
    assert jumps(world, 3) == [("dear", "firing", 11), ("dear", "resolved", 71)]


@pytest.mark.parametrize(
    ("minute", "usd", "is_news"),
    [(14, 2.4, False), (14, 9, True), (24 * 60 + 11, 2.5, True)],
    ids=["put back", "to another price", "two days later"],
)
def test_a_price_that_is_put_back_is_no_news(world: World, minute: int, usd: float, is_news: bool) -> None:
    world.price("a", 2.5, 0)
    world.price("a", 30, 10)
    world.price("a", usd, minute)
    news = [("a", "firing", minute + 1), ("a", "resolved", minute + 61)] if is_news else []
    assert sorted(jumps(world, 26)) == sorted([("a", "firing", 11), ("a", "resolved", 71), *news])


cents = st.integers(1, 2_000)


@settings(PROFILE)
@given(st.lists(st.tuples(cents, st.sampled_from(["H100", "H100 SXM5", "L4"]), st.booleans()), max_size=8))
def test_the_nearest_price_is_the_lowest_or_highest_other_one(drawn: list[tuple[int, str, bool]]) -> None:
    events = [
        PriceEvent(
            source="t", id=str(number), time_ms=1, sku=f"s{number}", component=Component.gpu, usd_nano=each * 10**7,
            per=Per.gpu_hour, gpus=1, effective_ms=0, match={"gpu_type": gpu} | ({"purchase": "spot"} if spot else {}),
        )
        for number, (each, gpu, spot) in enumerate(drawn)
    ]  # fmt: skip
    found = GpuPrices(PriceBook.empty().with_events(events), 1)
    for number, (each, gpu, spot) in enumerate(drawn):
        others = [
            price
            for other, (price, name, is_spot) in enumerate(drawn)
            if other != number and name[0] == gpu[0] and is_spot == spot
        ]
        jump = found.jump(events[number], MINUTE_MS)
        near = [price for price in others if price in (max(others), min(others))]
        if not others or min(others) <= each <= max(others):
            assert jump is None
        else:
            assert jump is not None
            assert jump.before_nano == min(near, key=lambda price: abs(price - each)) * 10**7


def test_prices_of_one_minute_are_not_looked_for_in_the_history(monkeypatch: pytest.MonkeyPatch) -> None:
    """A year of spot prices was read whole at each of its revisions: the work grew with its square."""

    def history(_: PriceBook) -> list[PriceEvent]:
        raise AssertionError("the whole history was read")

    monkeypatch.setattr(PriceBook, "events", property(history))
    revisions = [
        PriceEvent("t", f"{sku}{at_ms}", at_ms, sku, Component.gpu, usd * 10**9, Per.gpu_hour, 1, at_ms, SPOT)
        for sku, usd in (("a", 1), ("b", 2), ("far", 20))
        for at_ms in range(5)
    ]
    jump = GpuPrices(PriceBook.empty().with_events(revisions), 4).jump(revisions[-1], MINUTE_MS)
    assert jump is not None
    assert (jump.sku, jump.other_sku) == ("far", "b")
