"""A price that has moved more than three times in a day waits for another person, whichever worker is asked, and after a restart."""

from __future__ import annotations

import json
from typing import Any, Final

from schemas.decode import decode
from schemas.durations import DAY_MS, HOUR_MS
from schemas.events import ControlEvent, PriceEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from tests.web.approvals import Kept, asked, bearer, id_of, issued, post
from tests.web.serving import WALL_MS, Client, served

PATH: Final = "/api/v1/prices"
TOKENS: Final = {**issued("ada", ("limit",)), **issued("bob", ("limit",))}
LONG_AGO_MS: Final = WALL_MS - 30 * DAY_MS


def price(usd: str, sku: str = "h100") -> dict[str, Any]:
    return {"sku": sku, "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": LONG_AGO_MS, "gpu_type": "H100"}  # fmt: skip


class PriceLog:
    """The log of prices, which every worker reads; it has what was replaced, and the book has it not any more."""

    def __init__(self) -> None:
        self.records: list[tuple[int, PriceEvent]] = []

    def add(self, value: bytes, log_ms: int) -> None:
        event = decode("prices", value, (), log_ms)
        assert isinstance(event, PriceEvent), event
        self.records.append((log_ms, event))

    def read(self) -> ReferenceLog:
        """What a worker knows that has just started."""
        log = ReferenceLog()
        book = PriceBook.empty().with_events(event for _, event in self.records)
        log.extend(self.records, [], book, {})
        return log

    def ask(self, usd: str, at_ms: int, requests: dict[bytes, ControlEvent] | None = None) -> str:
        """Ask another worker each time: `deed` where the price is published, `request` where it waits."""
        kept = Kept()

        async def work(client: Client) -> str:
            if requests is None:
                status, found = await post(client, PATH, {"prices": [price(usd)]}, bearer("ada"))
            else:
                status, found = await post(
                    client, "/api/v1/approvals", {"id": id_of(requests)}, bearer("bob")
                )
            assert status == 202, found
            return str(found["kind"])

        options = {
            "wall_ms": at_ms,
            "controls": kept,
            "filed": TOKENS,
            "prices": self.read(),
            "requests": requests or {},
        }
        kind = served(None, work, **options)
        for each in kept.records:
            if each.topic == "prices":
                self.add(each.value, at_ms)
        return kind


def test_small_steps_of_a_day_are_one_whichever_worker_is_asked() -> None:
    log = PriceLog()
    assert log.ask("1", WALL_MS - 2 * DAY_MS) == "deed"
    assert [log.ask(usd, WALL_MS + n) for n, usd in enumerate(("2", "3", "4"))] == ["deed", "deed", "request"]
    assert log.ask("0.9", WALL_MS + HOUR_MS) == "request"  # more than three times below that of now
    assert log.ask("1.1", WALL_MS + HOUR_MS) == "deed"
    # A day later the former one counts no more.
    assert log.ask("3", WALL_MS + HOUR_MS + 2) == "deed"
    assert log.ask("8", WALL_MS + 2 * HOUR_MS + DAY_MS) == "deed"


def test_of_a_new_sku_the_first_price_of_the_day_counts() -> None:
    log = PriceLog()
    assert [log.ask(usd, WALL_MS + n) for n, usd in enumerate(("1", "2", "3", "4"))] == ["deed"] * 3 + ["request"]  # fmt: skip


def test_what_two_persons_agreed_on_is_where_the_next_step_begins() -> None:
    log = PriceLog()
    assert log.ask("1", WALL_MS - 2 * DAY_MS) == "deed"
    assert log.ask("10", WALL_MS) == "request"
    requests = asked({"kind": "prices", "prices": [price("10")]}, "token/ada")
    log.ask("", WALL_MS + 1, requests)
    known = log.read().book.revision("h100", WALL_MS)
    assert known is not None
    assert known.usd_nano == 10_000_000_000
    assert [log.ask(usd, WALL_MS + 2) for usd in ("31", "9")] == ["request", "deed"]


def confirming(log: PriceLog, requests: dict[bytes, ControlEvent], at_ms: int) -> tuple[int, str]:
    """The status and code of a confirmation, and nothing is written where it is refused."""
    kept = Kept()

    async def work(client: Client) -> tuple[int, str]:
        status, found = await post(client, "/api/v1/approvals", {"id": id_of(requests)}, bearer("bob"))
        return status, found.get("error", {}).get("code", "")

    options = {
        "wall_ms": at_ms,
        "controls": kept,
        "filed": TOKENS,
        "prices": log.read(),
        "requests": requests,
    }
    found = served(None, work, **options)
    assert bool(kept.records) == (found[0] == 202)
    for each in kept.records:
        if each.topic == "prices":
            log.add(each.value, at_ms)
    return found


def test_a_price_that_moves_while_another_waits_is_asked_for_anew() -> None:
    log = PriceLog()
    assert log.ask("1", WALL_MS - 2 * DAY_MS) == "deed"
    requests = asked({"kind": "prices", "prices": [price("10")]}, "token/ada")
    assert log.ask("2.5", WALL_MS + 1) == "deed"  # what they look at now is 4 times, and was 10
    assert confirming(log, requests, WALL_MS + 2) == (409, "price_moved")
    assert log.ask("10", WALL_MS + 3) == "request"
    # What was published before the request, and another SKU since, is not in its way.
    log.add(
        json.dumps({**price("7", "other"), "source": "cloud", "id": "c", "time_ms": WALL_MS}).encode(),
        WALL_MS + 4,
    )
    anew = asked(
        {"kind": "prices", "prices": [price("10"), price("8", "another")]}, "token/ada", at_ms=WALL_MS + 3
    )
    assert confirming(log, anew, WALL_MS + 5) == (202, "")
    # It was written, and who did was not: the same can be confirmed again.
    assert confirming(log, anew, WALL_MS + 6) == (202, "")


def test_parts_of_a_long_list_are_confirmed_one_after_another() -> None:
    log = PriceLog()
    assert log.ask("1", WALL_MS - 2 * DAY_MS) == "deed"
    first, second = (
        asked({"kind": "prices", "prices": [{**price(usd), "effective_ms": LONG_AGO_MS + n}]}, "token/ada")
        for n, usd in enumerate(("10", "20"))
    )
    assert confirming(log, first, WALL_MS + 1) == confirming(log, second, WALL_MS + 2) == (202, "")
    other = asked({"kind": "prices", "prices": [{**price("90"), "effective_ms": LONG_AGO_MS}]}, "token/ada")
    assert confirming(log, other, WALL_MS + 3) == (409, "price_moved")


def test_a_sender_does_not_say_that_two_persons_agreed() -> None:
    log = PriceLog()
    assert log.ask("1", WALL_MS - 2 * DAY_MS) == "deed"
    real = log.records[0][1]
    forged = {**price("3"), "source": "cloud", "id": "web_by_two_x", "time_ms": WALL_MS}

    log.add(json.dumps(forged).encode(), WALL_MS)
    assert real.id.startswith("web_by_two_") is False
    assert log.ask("8", WALL_MS + 1) == "request"
