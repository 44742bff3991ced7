"""Lines of time without GPUs whose machines no price of `compute` applies to: they are shown, never free without a word."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from schemas.events import PRICE_FIELDS, Component, PriceEvent
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import NOBODY
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.state.node import NodeState
from streams.engine.timeline.attempts import Segment
from streams.engine.timeline.lines import Lines, attempt_lines, differs_from_ms
from streams.engine.timeline.nodes import NodeSegment, node_lines
from streams.engine.timeline.values import NO_FIELDS, Values

HOUR_MS = 3_600_000
NEVER_MS = 2**62


def price(sku: str, component: Component, per: Per, effective_ms: int = 0) -> PriceEvent:
    return PriceEvent("s", sku, 0, sku, component, 10**9, per, 0, effective_ms, {})


def booked(prices: list[PriceEvent], **held: Any) -> list[tuple[str, str, str, str, int, int]]:
    """(node, component, unit, SKU, from, until) of an hour."""
    segment = Segment(0, HOUR_MS, "running", Values(**held))
    lines = attempt_lines([segment], ((600, 900),), PriceBook.empty().with_events(prices), NOBODY)
    found = {
        (line.node, line.price.component, line.price.unit, line.price.sku, intervals[0][0], intervals[-1][1])
        for line, intervals in lines.items()
    }
    assert all(sum(end - start for start, end, *_ in each) <= HOUR_MS for each in lines.values())
    return sorted(found)


@pytest.mark.parametrize(
    ("held", "unit"),
    [
        ({"instance_milli": 2000, "cpu_milli": 96_000, "memory_milli": 384_000}, "instance_milli_ms"),
        ({"cpu_milli": 96_000, "memory_milli": 384_000}, "cpu_milli_ms"),
        ({"memory_milli": 384_000}, "memory_gib_milli_ms"),
    ],
)
def test_machines_without_a_price_book_one_kind_of_what_they_are(held: dict[str, int], unit: str) -> None:
    assert booked([], **held) == [("", "compute", unit, "", 0, HOUR_MS)]


def test_instances_without_a_price_are_shared_out_to_their_nodes() -> None:
    found = booked([], instance_milli=2000, nodes=(("a", 0), ("b", 0)))
    assert found == [(node, "compute", "instance_milli_ms", "", 0, HOUR_MS) for node in ("a", "b")]


@pytest.mark.parametrize("per", [Per.instance_hour, Per.vcpu_hour, Per.memory_gib_hour, Per.job_hour])
def test_a_price_of_any_of_it_is_one(per: Per) -> None:
    found = booked(
        [price("p", Component.compute, per)], instance_milli=2000, cpu_milli=96_000, memory_milli=384_000
    )
    assert [each[3] for each in found] == ["p"]


def test_it_is_shown_until_its_price_begins() -> None:
    found = booked([price("p", Component.compute, Per.vcpu_hour, 1_000)], instance_milli=1, cpu_milli=1)
    assert found == [
        ("", "compute", "cpu_milli_ms", "p", 1_000, HOUR_MS),
        ("", "compute", "instance_milli_ms", "", 0, 1_000),
    ]


def test_prices_of_other_components_are_none_of_the_machine() -> None:
    found = booked([price("p", Component.overhead, Per.job_hour)], cpu_milli=1)
    assert {each[1:4] for each in found} == {("overhead", "ms", "p"), ("compute", "cpu_milli_ms", "")}


def test_nothing_is_booked_of_what_holds_gpus_or_says_nothing() -> None:
    assert booked([]) == []
    assert booked([], gpu_milli=1000, instance_milli=1000) == [("", "gpu", "gpu_milli_ms", "", 0, HOUR_MS)]


WATTS = tuple("watt" if name == "instance_type" else None for name in PRICE_FIELDS)


@pytest.mark.parametrize("gpu_milli", [0, 1000])
def test_energy_without_a_price_of_its_own_is_shown_with_gpus_and_without(gpu_milli: int) -> None:
    prices = [
        price("g", Component.gpu, Per.gpu_hour),
        price("c", Component.compute, Per.vcpu_hour),
        price("w", Component.compute, Per.instance_hour, 1_000),
    ]
    found = booked(prices, gpu_milli=gpu_milli, instance_milli=12_000, cpu_milli=1, fields=WATTS)
    assert [each for each in found if each[2] == "instance_milli_ms"] == [
        ("", "compute", "instance_milli_ms", "", 0, 1_000),
        ("", "compute", "instance_milli_ms", "w", 1_000, HOUR_MS),
    ]


def test_a_device_that_reports_no_energy_shows_none() -> None:
    assert booked([], gpu_milli=1000, fields=WATTS) == [("", "gpu", "gpu_milli_ms", "", 0, HOUR_MS)]


def test_lines_differ_from_the_first_instant_with_another_price() -> None:
    def lines(end_ms: int, *prices: tuple[str, int]) -> Lines:
        events = [price(sku, Component.gpu, Per.gpu_hour, at_ms) for sku, at_ms in prices]
        book = PriceBook.empty().with_events(events)
        segments = [Segment(0, end_ms, "running", Values(gpu_milli=1000, cpu_milli=500))]
        return attempt_lines(segments, (), book, NOBODY)

    one = lines(9000, ("a", 0), ("a", 3000))
    assert differs_from_ms(one, one) == NEVER_MS
    assert differs_from_ms(one, lines(9000, ("a", 0), ("a", 3000), ("a", 7000))) == 7000
    assert differs_from_ms(one, lines(9000, ("a", 0))) == 3000
    assert differs_from_ms(lines(9000, ("a", 0)), one) == 3000
    assert differs_from_ms(one, lines(8000, ("a", 0), ("a", 3000))) == 8000
    assert differs_from_ms(one, lines(9000, ("b", 0), ("b", 3000))) == 0
    assert differs_from_ms({}, one) == 0


def of_node(prices: list[PriceEvent], gpu_milli: int = 0) -> list[tuple[str, str, int, int, int]]:
    """(unit, SKU, from, until, quantity per ms) of an hour of a node."""
    book = PriceBook.empty().with_events(prices)
    lines = node_lines([NodeSegment(0, HOUR_MS, gpu_milli, NO_FIELDS)], HOUR_MS, book)
    return sorted(
        (line.price.unit, line.price.sku, *each[:3])
        for line, intervals in lines.items()
        for each in intervals
    )


def test_a_node_without_a_price_is_shown_as_one_instance() -> None:
    job_hour = price("p", Component.compute, Per.job_hour)
    assert of_node([]) == of_node([job_hour]) == [("instance_milli_ms", "", 0, HOUR_MS, 1000)]
    assert of_node([], 8000) == [("gpu_milli_ms", "", 0, HOUR_MS, 8000)]


def test_a_node_is_shown_until_its_price_begins() -> None:
    assert of_node([price("p", Component.compute, Per.instance_hour, 1_000)]) == [
        ("instance_milli_ms", "", 0, 1_000, 1000),
        ("instance_milli_ms", "p", 1_000, HOUR_MS, 1000),
    ]


@pytest.mark.parametrize("per", [Per.vcpu_hour, Per.memory_gib_hour])
def test_a_node_whose_jobs_pay_for_their_part_of_it_books_nothing(per: Per) -> None:
    assert of_node([price("p", Component.compute, per, 1_000)]) == [("instance_milli_ms", "", 0, 1_000, 1000)]


@pytest.mark.parametrize("per", [Per.instance_hour, Per.vcpu_hour, Per.memory_gib_hour])
def test_a_later_price_of_any_part_of_a_node_derives_its_rows_again(per: Per) -> None:
    node = SimpleNamespace(segments=lambda: [NodeSegment(0, HOUR_MS, 0, NO_FIELDS)])
    before = PriceBook.empty()
    news = PriceChanges(before, before.with_events([price("late", Component.compute, per)]))
    assert news.touches_node(cast("NodeState", node))
    others = PriceChanges(before, before.with_events([price("g", Component.gpu, Per.gpu_hour)]))
    assert not others.touches_node(cast("NodeState", node))
