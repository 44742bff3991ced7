"""Which price applies: the most match fields, the tie order, revisions in time."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import Component, PriceEvent
from schemas.units import Per, usd_to_nano
from streams.pricing.book import BEGINNING_MS, PriceBook
from streams.pricing.context import traffic_context, usage_context
from streams.pricing.kinds import Kind, kind_of_price


def price(sku: str, usd: str = "1", effective_ms: int = 0, **named: Any) -> PriceEvent:
    """A gpu_hour price unless told otherwise; other keywords are match fields."""
    values = {
        "component": "gpu",
        "per": "gpu_hour",
        "gpus": 1,
        "time_ms": 0,
        "source": "s",
        "id": sku,
    } | named
    match = {
        k: str(v)
        for k, v in values.items()
        if k not in ("component", "per", "gpus", "time_ms", "source", "id")
    }
    return PriceEvent(
        source=str(values["source"]),
        id=str(values["id"]),
        time_ms=int(str(values["time_ms"])),
        sku=sku,
        component=Component(str(values["component"])),
        usd_nano=usd_to_nano(usd),
        per=Per(str(values["per"])),
        gpus=int(str(values["gpus"])),
        effective_ms=effective_ms,
        match=match,
    )


def sku_at(events: list[PriceEvent], at_ms: int = 10, team: str | None = None, **fields: Any) -> str | None:
    """The winning gpu SKU at an instant."""
    names = ("cloud", "region", "zone", "cluster", "account", "instance_type", "gpu_type", "purchase")
    context = usage_context(tuple(fields.get(name) for name in names), team, None)
    found = PriceBook.empty().with_events(events).price_at(context, "gpu", Kind.GPU_TIME, at_ms)
    return found.sku if found else None


def test_most_match_fields_win() -> None:
    events = [price("any"), price("region", region="eu"), price("both", region="eu", gpu_type="H100")]
    assert sku_at(events, region="eu", gpu_type="H100") == "both"
    assert sku_at(events, region="eu", gpu_type="A100") == "region"
    assert sku_at(events, region="us") == "any"


def test_field_that_usage_does_not_name_is_no_match() -> None:
    assert sku_at([price("eu", region="eu")]) is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("zone", "instance_type"),
        ("instance_type", "gpu_type"),
        ("gpu_type", "region"),
        ("region", "cluster"),
        ("cluster", "account"),
        ("account", "cloud"),
        ("cloud", "purchase"),
    ],
)
def test_ties_by_presence_of_fields_in_the_contract_order(first: str, second: str) -> None:
    # The loser's sku is the smaller one, so that only the tie order can decide.
    events = [price("b", "1", 0, **{first: "x"}), price("a", "1", 0, **{second: "x"})]
    assert sku_at(events, 10, None, **{first: "x", second: "x"}) == "b"


def test_last_tie_by_smallest_sku() -> None:
    assert sku_at([price("b", cloud="x"), price("a", cloud="x")], cloud="x") == "a"


def test_revision_in_force_decides_even_if_it_no_longer_matches() -> None:
    events = [price("s", "1", 0), price("s", "2", 100, region="eu"), price("t", "9", 50, zone="z")]
    assert sku_at(events, 99) == "s"
    assert sku_at(events, 100) is None
    assert sku_at(events, 100, region="eu") == "s"


def test_steps_begin_without_a_price_and_merge_equal_neighbours() -> None:
    book = PriceBook.empty().with_events([price("s", "1", 5), price("late", "7", 9, cloud="other")])
    steps = book.steps(usage_context((None,) * 8, None, None), "gpu", Kind.GPU_TIME)
    assert [(from_ms, ref and ref.sku) for from_ms, ref in steps] == [(BEGINNING_MS, None), (5, "s")]


def test_of_two_records_of_one_revision_the_later_by_time_source_id_stands() -> None:
    first, second = price("s", "1", 0, time_ms=5, id="a"), price("s", "2", 0, time_ms=5, id="b")
    for order in ([first, second], [second, first]):
        assert PriceBook.empty().with_events(order).events == [second]


def test_book_that_learns_nothing_is_the_same_object() -> None:
    book = PriceBook.empty().with_events([price("s")])
    assert book.with_events([price("s")]) is book
    assert book.first_difference_ms(book) is None
    assert book.with_events([price("s", "2", 77)]).first_difference_ms(book) == 77


def test_component_of_a_revision_holds_while_it_is_in_force() -> None:
    events = [price("s", "1", 0), price("s", "1", 10, component="overhead")]
    assert sku_at(events, 9) == "s"
    assert sku_at(events, 10) is None


def test_instance_hour_with_gpus_is_gpu_time_and_without_is_instance_time() -> None:
    assert kind_of_price("instance_hour", 8) == Kind.GPU_TIME
    assert kind_of_price("instance_hour", 0) == Kind.INSTANCE_TIME
    whole = PriceBook.empty().with_events([price("p5", "55.04", per="instance_hour", gpus=8)])
    ref = whole.price_at(usage_context((None,) * 8, None, None), "gpu", Kind.GPU_TIME, 1)
    assert ref is not None
    assert ref.divisor == 3_600_000 * 1000 * 8


def test_traffic_is_priced_by_its_own_fields_and_the_jobs_team() -> None:
    book = PriceBook.empty().with_events(
        [price("egress", component="network", per="gb", path="internet", team="a", direction="egress")]
    )
    context = traffic_context({"path": "internet", "direction": "egress"}, "a", None)
    assert book.price_at(context, "network", Kind.BYTES, 1) is not None
    assert book.price_at(context, "network", Kind.REQUESTS, 1) is None
    other_team = traffic_context({"path": "internet", "direction": "egress"}, "b", None)
    assert book.price_at(other_team, "network", Kind.BYTES, 1) is None
