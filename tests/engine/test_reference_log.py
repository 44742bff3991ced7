"""What was known at an instant of log time does not change by what came later."""

from collections.abc import Callable

import pytest

from schemas.durations import NEVER_MS
from schemas.events import Component, ControlEvent, PriceEvent
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.history import Form
from streams.engine.reference_log import ReferenceLog
from streams.engine.repricing.price_changes import PriceChanges


def price(sku: str, usd_nano: int, match: dict[str, str] | None = None) -> PriceEvent:
    name, at_ms = f"{sku}{usd_nano}", 0
    return PriceEvent("s", name, usd_nano, sku, Component.gpu, usd_nano, Per.gpu_hour, 1, at_ms, match or {})


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


def test_what_nobody_asks_for_is_no_next_change() -> None:
    log = ReferenceLog()
    of_a, of_b = ({"region": "eu"}, {"region": "us"})
    events = [price("a", 1, of_a), price("b", 2, of_b), price("a", 3, of_b)]
    log.extend(
        [(at_ms, event) for at_ms, event in zip((100, 200, 300), events, strict=True)],
        [(400, b"owner/x", control("x"))],
        PriceBook.empty().with_events(events),
        {},
    )
    view = log.view()

    def asking(region: str) -> Callable[[frozenset[Form]], set[str]]:
        return lambda forms: {value for _, _, match in forms for _, value in match if value == region}

    view.at(50)
    assert [view.next_change_ms(1_000, asking(region)) for region in ("eu", "us", "ap")] == [100, 200, 400]
    assert [view.next_change_ms(until_ms, asking("ap")) for until_ms in (399, 400)] == [NEVER_MS, 400]
    view.at(150)  # a price for others may have been one for these before
    assert view.next_change_ms(1_000, asking("eu")) == 300
    view.at(500)
    assert view.next_change_ms(1_000, asking("us")) == NEVER_MS


def test_the_same_objects_while_nothing_changes() -> None:
    log = ReferenceLog()
    log.extend([(100, price("a", 1)), (500, price("b", 2))], [], PriceBook.empty(), {})
    view = log.view()
    known = view.at(200)
    assert view.at(499).book is known.book
    assert view.at(499).controls is known.controls
    # Whoever reads hands in both each time: equal controls in another object would be news to all who watch.
    log.extend([(501, price("c", 3))], [], PriceBook.empty(), {})
    assert view.at(600).controls is known.controls


def test_shards_that_come_to_a_price_one_after_another_share_its_book() -> None:
    log = ReferenceLog()
    log.extend([(at_ms, price("a", at_ms)) for at_ms in (100, 200, 300)], [], PriceBook.empty(), {})
    early, late = log.view(), log.view()
    books = [early.at(at_ms).book for at_ms in (100, 200)]
    assert [late.at(at_ms).book for at_ms in (100, 200)] == books
    changes = PriceChanges.between(*books)
    assert PriceChanges.between(*books) is changes
    assert early.again().at(200).book is books[1]


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


def test_what_all_views_are_past_and_no_log_reaches_back_to_is_taken_together() -> None:
    log, day_ms = ReferenceLog(), 86_400_000
    slow = log.view()
    for hour in range(24 * 120):
        log_ms = hour * 3_600_000 + 1
        event = price("a", hour + 1)
        change = (log_ms, b"owner/x", None if hour % 2 else control(f"x{hour}"))
        standing = {} if hour % 2 else {b"owner/x": control(f"x{hour}")}
        log.extend([(log_ms, event)], [change], log.book.with_events([event]), standing)
        if hour == 24 * 60:
            assert len(log.prices) == hour + 1  # a view has not come so far
            slow.at(50 * day_ms)
    assert len(log.prices) < 24 * 8 + 1000 + 24 * 70
    slow.at(119 * day_ms)
    log.extend([(120 * day_ms, price("b", 1))], [], log.book, {})
    assert len(log.prices) < 24 * 8
    assert len(log.changes) < 24 * 8
    fresh = log.view()
    for at_ms in (114 * day_ms, 118 * day_ms):
        known = fresh.at(at_ms)
        assert [event.usd_nano for event in known.book.events] == [at_ms // 3_600_000]
        assert known.controls == (
            {} if (at_ms // 3_600_000 - 1) % 2 else {b"owner/x": control(f"x{at_ms // 3_600_000 - 1}")}
        )


def test_a_meter_that_begins_with_an_old_log_knows_no_price_too_early() -> None:
    log, day_ms = ReferenceLog(), 86_400_000
    events = [(hour * 3_600_000, price("a", hour + 1)) for hour in range(24 * 60)]
    book = PriceBook.empty().with_events([event for _, event in events])
    log.extend(events, [], book, {})
    view = log.view()
    assert [event.usd_nano for event in view.at(day_ms).book.events] == [25]
    view.at(59 * day_ms)
    log.extend([(60 * day_ms, price("b", 1))], [], book, {})
    assert len(log.prices) < 24 * 8
