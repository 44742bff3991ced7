"""POST /api/v1/prices: publishes revisions of prices; one that moves a price more than three times waits for a second person."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final

import msgspec
from aiohttp import web

from schemas.decode import decode
from schemas.durations import DAY_MS
from schemas.escaping import visible
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.validate_deeds import deed_record
from schemas.validate_requests import WaitingRequest, digest_of
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.rules.price_jump import RULE
from streams.keys import OutgoingRecord, key_of
from streams.topics import Topic
from streams.web.control_record import SOURCE, ControlRecord
from streams.web.controls import ControlEndpoint, accepted
from streams.web.errors import ApiError
from streams.web.request_body import json_body
from streams.web.scopes import Caller, Scope
from streams.web.second_person import SKIPPED, both, request_record

BODY_MAX_BYTES: Final = 256 * 1024
#: Of what waits as one request, which is one record.
PRICES_MAX: Final = 50
#: Where those that wait are distinguished.
APART_MAX: Final = 200
#: How the id of a price begins that two persons agreed on.
_BY_TWO: Final = "web_by_two_"
#: The kind of what waits for a second person.
PRICES: Final = "prices"
_OURS: Final = ("source", "id", "time_ms")
_FACTOR: Final = Fraction(str(RULE.thresholds["factor"].default))
_EXAMPLE: Final = (
    '{"prices": [{"sku": "h100", "component": "gpu", "usd": "2.50", "per": "gpu_hour", "effective_ms": 0}]}'
)


class PriceEndpoint:
    """The endpoint of one server.

    Args:
        controls: What writes records, and whose limits hold.
        log: The prices that are known, and when; None: they are not read yet.
    """

    def __init__(self, controls: ControlEndpoint, log: Callable[[], ReferenceLog | None]) -> None:
        self._controls = controls
        self._log = log
        controls.confirms[PRICES] = self._confirm

    async def answer(self, request: web.Request, caller: Caller) -> web.Response:
        """Publish what is asked for, or ask for a second person.

        Raises:
            ApiError: A price is wrong, prices are not read yet, or Kafka did not take them.
        """
        self._controls.check_open(caller)
        asked = await json_body(request, BODY_MAX_BYTES, dict[str, Any], _EXAMPLE)
        if unknown := sorted(asked.keys() - {"prices", "comment", "apart"}):
            raise ApiError(400, f"{visible(unknown[0])}: expected prices, comment and apart alone")
        comment, apart = asked.get("comment", ""), asked.get("apart", False)
        if not isinstance(comment, str):
            raise ApiError(400, "comment: expected a text", field="comment")
        if not isinstance(apart, bool):
            raise ApiError(400, "apart: expected true or false", field="apart")
        prices = asked.get("prices")
        events = self._events(prices, APART_MAX if apart else PRICES_MAX)
        jumps = self._jumps(events)
        if not jumps or not caller.is_identity:
            written = await self._publish(events, caller, caller.token, comment)
            return accepted({**written, **({"second_person": SKIPPED} if jumps else {})})
        assert isinstance(prices, list)
        why = f"{visible(jumps[0])} moves more than {_FACTOR} times: no price of this request has an effect until another person confirms it within an hour"
        if not apart:
            return accepted({**await self._ask(prices, comment, caller), "second_person": why})
        # By SKU: revisions of one are held to each other.
        waits = [given for given, (event, _) in zip(prices, events, strict=True) if event.sku in jumps]
        rest = [each for each in events if each[0].sku not in jumps]
        asked_for = [
            await self._ask(waits[at : at + PRICES_MAX], comment, caller)
            for at in range(0, len(waits), PRICES_MAX)
        ]
        done = await self._publish(rest, caller, caller.token, comment) if rest else {"prices": 0}
        return accepted({**asked_for[0], **done, "waits": len(waits), "requests": [each["name"] for each in asked_for], "second_person": why})  # fmt: skip

    async def _ask(self, prices: Sequence[object], comment: str, caller: Caller) -> dict[str, str]:
        """Write a request for a second person."""
        control = {"kind": PRICES, "prices": prices, **({"comment": comment} if comment else {})}
        record = request_record(
            control, caller.token, self._controls.now_ms(), person=caller.person, subject=caller.subject
        )
        return await self._controls.append(record, caller)

    async def _confirm(self, found: WaitingRequest, caller: Caller) -> dict[str, Any]:
        """Publish what another person has asked for.

        Raises:
            ApiError: The caller may not, a price has moved since they were asked for, or Kafka did not take them.
        """
        if Scope.LIMIT not in caller.scopes or caller.is_bound(Scope.LIMIT):
            raise ApiError(403, f"prices need the scope `{Scope.LIMIT}` without a bound")
        events = self._events(found.control["prices"], PRICES_MAX, _BY_TWO)
        if moved := self._moved(events, found.asked_ms):
            raise ApiError(
                409,
                f"the price of {visible(moved)} has moved since this was asked for, so it is not what was looked at: ask anew",
                "price_moved",
            )
        comment = str(found.control.get("comment", ""))
        return await self._publish(events, caller, both(found, caller), comment)

    def _moved(self, events: Sequence[tuple[PriceEvent, OutgoingRecord]], asked_ms: int) -> str:
        """The first SKU of which another price was published since; '': there is none.

        What two persons agreed on for another instant is none: of a long list they confirm one part after another.
        """
        skus = {event.sku for event, _ in events}
        _, since = self._known().prices_since(skus, asked_ms)
        for event, _ in events:
            for each in since:
                is_there = each.effective_ms == event.effective_ms
                if each.sku != event.sku or (is_there and _is_same(each, event)):
                    continue
                if is_there or not _is_of_two(each):
                    return event.sku
        return ""

    def _known(self) -> ReferenceLog:
        log = self._log()
        if log is None:
            raise ApiError(503, "prices are read from the topic `prices`, which is not done yet", "starting")
        return log

    def _events(
        self, prices: object, at_most: int, begins: str = "web_"
    ) -> list[tuple[PriceEvent, OutgoingRecord]]:
        if not isinstance(prices, list) or not 1 <= len(prices) <= at_most:
            raise ApiError(400, f"prices: expected a list of 1 to {at_most}", field="prices")
        now_ms = self._controls.now_ms()
        return [self._event(place, each, now_ms, begins) for place, each in enumerate(prices)]

    def _event(
        self, place: int, given: object, now_ms: int, begins: str
    ) -> tuple[PriceEvent, OutgoingRecord]:
        where = f"prices[{place}]"
        if not isinstance(given, Mapping):
            raise ApiError(400, f"{where}: expected an object", field="prices")
        if ours := [field for field in _OURS if field in given]:
            raise ApiError(400, f"{where}.{ours[0]}: the worker sets it", field="prices")
        value = msgspec.json.encode(
            {**given, "source": SOURCE, "id": begins + digest_of([now_ms, dict(given)]), "time_ms": now_ms}
        )
        event = decode(Topic.PRICES, value, (), now_ms)
        if isinstance(event, Invalid):
            raise ApiError(400, f"{where}: {visible(event.detail)}", field="prices")
        assert isinstance(event, PriceEvent)
        return event, OutgoingRecord(Topic.PRICES, key_of(Topic.PRICES, value), value, [])

    def _jumps(self, events: Sequence[tuple[PriceEvent, OutgoingRecord]]) -> list[str]:
        """The SKUs that move too far from what is known of them: at the instant from which the price holds, now, or ever; a new one from all alike."""
        log = self._known()
        now_ms = self._controls.now_ms()
        day_ago_ms = now_ms - DAY_MS
        book = log.book
        # What was replaced in place is in the log alone, which every worker has read, however new it is.
        of_yesterday, since = log.prices_since({event.sku for event, _ in events}, day_ago_ms)
        known: dict[str, list[PriceEvent]] = {}
        in_force = [*book.in_force(now_ms)]
        for each in book.events:
            known.setdefault(each.sku, []).append(each)
        found = []
        for event, _ in events:
            now = book.revision(event.sku, event.effective_ms)
            if now is not None and now.effective_ms == event.effective_ms and _is_same(now, event):
                continue  # a list that is sent again moves nothing
            # Several small steps in a day are one.
            at = (event.effective_ms, now_ms, event.effective_ms - DAY_MS, day_ago_ms)
            beside = (book.revision(event.sku, at_ms) for at_ms in at)
            before = [each for each in beside if each is not None] or known.get(event.sku, [])
            before = [*before, *_of_yesterday(event, of_yesterday, since, day_ago_ms)]
            alike = [] if before else [each for each in in_force if _is_alike(each, event)]
            alike = [each for each in alike if each.time_ms <= day_ago_ms] or alike
            if any(_is_far(each, event) for each in before) or (
                alike and all(_is_far(each, event) for each in alike)
            ):
                found.append(event.sku)
            known.setdefault(event.sku, []).append(
                event
            )  # of several of one request each is held to the others
        return found

    async def _publish(
        self, events: Sequence[tuple[PriceEvent, OutgoingRecord]], caller: Caller, by: str, comment: str
    ) -> dict[str, Any]:
        """Write the prices, then who did."""
        await self._controls.append_all([record for _, record in events], caller)
        skus = ", ".join(dict.fromkeys(event.sku for event, _ in events))
        deed = deed_record("prices", digest_of([by, skus, self._controls.now_ms()]), by, visible(skus), len(events), self._controls.now_ms(), comment)  # fmt: skip
        written = await self._controls.append(ControlRecord(deed.key, deed.value, "deed", deed.key.decode().partition("/")[2], ""), caller)  # fmt: skip
        return {**written, "by": by, "prices": len(events)}


def _of_yesterday(
    event: PriceEvent, book: PriceBook, since: Sequence[PriceEvent], day_ago_ms: int
) -> list[PriceEvent]:
    """From what a SKU has moved in a day: what two persons agreed on last, else what was known a day ago, else what came first."""
    own = [each for each in since if each.sku == event.sku]
    if agreed := [each for each in own if _is_of_two(each)]:
        return agreed[-1:]
    at = (event.effective_ms, day_ago_ms)
    return [each for at_ms in at if (each := book.revision(event.sku, at_ms)) is not None] or own[:1]


def _is_of_two(price: PriceEvent) -> bool:
    """Whether two persons have agreed on a price."""
    return price.source == SOURCE and price.id.startswith(_BY_TWO)


def _is_alike(one: PriceEvent, other: PriceEvent) -> bool:
    """Whether a price of a new SKU may take the place of another one: by a closer match it is paid instead."""
    of = "gpu_type"
    return (
        one.component == other.component and one.per == other.per and one.match.get(of) == other.match.get(of)
    )


def _is_same(before: PriceEvent, after: PriceEvent) -> bool:
    return (before.usd_nano, before.per, before.gpus, before.match) == (
        after.usd_nano,
        after.per,
        after.gpus,
        after.match,
    )


def _is_far(before: PriceEvent, after: PriceEvent) -> bool:
    """Whether one price is more than three times the other, or is of another quantity."""
    if before.per != after.per:
        return True
    one, other = (Fraction(each.usd_nano, each.gpus or 1) for each in (before, after))
    return max(one, other) > _FACTOR * min(one, other)
