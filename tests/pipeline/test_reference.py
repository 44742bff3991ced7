"""What was known at an instant of log time does not change by what came later."""

import pytest

from schemas.events import Component, ControlEvent, PriceEvent
from schemas.units import Per
from streams.pipeline.reference import NEVER_MS, ReferenceLog
from streams.pricing.book import PriceBook


def price(sku: str, usd_nano: int) -> PriceEvent:
    return PriceEvent("s", f"{sku}{usd_nano}", usd_nano, sku, Component.gpu, usd_nano, Per.gpu_hour, 1, 0, {})


def control(name: str) -> ControlEvent:
    return ControlEvent("s", name, 0, "owner", name, {})


def test_prices_and_controls_as_of_an_instant() -> None:
    log = ReferenceLog()
    first, second = price("a", 1), price("a", 2)
    book = PriceBook.empty().with_events([first, second])
    log.extend(
        [(100, first), (300, second)],
        [(200, b"owner/x", control("x")), (400, b"owner/x", None)],
        book,
        {},
    )
    view = log.view()
    assert (len(view.at(99).book), view.at(99).until_ms) == (0, 100)
    assert view.at(100).book.events == [first]
    assert view.at(250).controls == {b"owner/x": control("x")}
    assert view.at(300).book is book  # all that is known: the one book that every shard shares
    assert (view.at(400).controls, view.at(400).until_ms) == ({}, NEVER_MS)


def test_the_same_objects_while_nothing_changes() -> None:
    log = ReferenceLog()
    log.extend([(100, price("a", 1)), (500, price("b", 2))], [], PriceBook.empty(), {})
    view = log.view()
    known = view.at(200)
    assert view.at(499).book is known.book
    assert view.at(499).controls is known.controls


def test_what_was_known_before_the_log() -> None:
    before = PriceBook.empty().with_events([price("a", 1)])
    log = ReferenceLog(before, {b"k": control("k")})
    known = log.view().at(-1)
    assert (known.book, known.controls) == (before, {b"k": control("k")})


def test_log_time_of_a_late_record_is_that_of_the_one_before() -> None:
    log = ReferenceLog()
    events = [price("a", 1), price("b", 2)]
    log.extend([(300, events[0]), (100, events[1])], [], PriceBook.empty().with_events(events), {})
    assert len(log.view().at(299).book) == 0


def test_a_look_back_is_refused() -> None:
    view = ReferenceLog().view()
    view.at(10_000)
    with pytest.raises(ValueError, match="before 10000"):
        view.at(9_999)
