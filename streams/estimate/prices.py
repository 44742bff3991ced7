"""The price book as stored, and the prices of time under some price fields at an instant."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from schemas.events import MATCH_FIELDS, PRICE_FIELDS, Component, PriceEvent
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Context, time_parts, usage_context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.kinds import TIME_COMPONENTS, Kind, PriceRef
from streams.engine.pricing.nearest import is_met, nearest
from streams.errors import TrainfareError, WrongUseError
from streams.estimate.ran import Applied

STORED_PRICES: Final = """
SELECT sku, component, toString(usd) AS usd, per, gpus, toUnixTimestamp64Milli(effective) AS effective_ms, match, source, id,
       toUnixTimestamp64Milli(time) AS time_ms
FROM prices FINAL
"""
_SHOWN: Final = 12


def price_book(rows: Iterable[Mapping[str, Any]]) -> PriceBook:
    """The book of the rows of `STORED_PRICES`."""
    return PriceBook.empty().with_events(
        PriceEvent(
            source=row["source"],
            id=row["id"],
            time_ms=row["time_ms"],
            sku=row["sku"],
            component=Component(row["component"]),
            usd_nano=int(Decimal(row["usd"]).scaleb(9)),
            per=Per(row["per"]),
            gpus=row["gpus"],
            effective_ms=row["effective_ms"],
            match=dict(row["match"]),
        )
        for row in rows
    )


def context_of(fields: Mapping[str, str], team: str, project: str) -> Context:
    """The price context of these PRICE_FIELDS; an empty value is an absent one."""
    values = tuple(fields.get(name) or None for name in PRICE_FIELDS)
    return usage_context(values, team or None, project or None)


def time_prices(
    book: PriceBook, context: Context, kind: Kind, at_ms: int, labels: Iterable[str] = ()
) -> Iterator[PriceRef]:
    """Yield the price of each component that this kind of time pays at an instant.

    Raises:
        TrainfareError: GPU-time has no price; the message says which is missing.
        WrongUseError: No type of GPU is named, and prices of GPU-time ask for nothing else.
    """
    for component, asked in time_parts(kind, context, labels):
        price = book.price_at(asked, component, kind, at_ms)
        if price is not None:
            yield price
        elif component == Component.gpu:
            raise _unpriced(book, context, at_ms)


def price_instants(
    book: PriceBook, contexts: Iterable[Context], from_ms: int, until_ms: int, labels: tuple[str, ...] = ()
) -> list[int]:
    """The instants inside (from_ms, until_ms) at which a price of time changes, ascending."""
    found = {
        at_ms
        for context in contexts
        for kind in TIME_COMPONENTS
        for component, asked in time_parts(kind, context, labels)
        for at_ms, _ in book.steps(asked, component, kind, from_ms, until_ms)
    }
    return sorted(at_ms for at_ms in found if from_ms < at_ms < until_ms)


def check_gpu_type(book: PriceBook, gpu_type: str, seen: Iterable[str]) -> None:
    """Check that a price or a past job (`seen`) knows a GPU type; without any of either, any is right.

    Raises:
        TrainfareError: None does.
    """
    known = {event.match["gpu_type"] for event in book.events if "gpu_type" in event.match} | {*seen} - {""}
    if gpu_type and known and product(gpu_type) not in {product(name) for name in known}:
        raise TrainfareError(f"gpu type {gpu_type!r}: no price and no past job has it; known: {_some(known)}")


def nearer(book: PriceBook, context: Context, sku: str, at_ms: int) -> str | None:
    """Name a price of GPU-time with more of the named fields than `sku`, and what it asks for besides; None without."""
    given = {name: value for name, value in zip(MATCH_FIELDS, context, strict=True) if value is not None}
    found: list[tuple[int, int, str, str]] = []
    shared = 0
    for event in book.events:
        if event.component is not Component.gpu or event.effective_ms > at_ms:
            continue
        wants = [f"{name}={value}" for name, value in event.match.items() if name not in given]
        if event.sku == sku and not wants:
            shared = len(event.match)
        elif wants and all(
            name not in given or is_met(name, value, given) for name, value in event.match.items()
        ):
            found.append((len(wants) - len(event.match), len(wants), event.sku, ", ".join(wants)))
    if not found or -min(found)[0] <= shared:
        return None
    *_, name, wanted = min(found)
    return f"{name} is nearer, but asks for {wanted}"


def not_in_price(
    book: PriceBook, prices: Iterable[PriceRef | Applied], asked: Mapping[str, str]
) -> dict[str, str]:
    """Of the asked fields those that a price of GPU-time which applies does not name, with its SKU: it is a price of any such value."""
    known = {(event.sku, event.effective_ms): event for event in book.events}
    found: dict[str, str] = {}
    for price in prices:
        event = known.get((price.sku, price.effective_ms))
        if event is not None and event.component is Component.gpu:
            found |= {name: event.sku for name, value in asked.items() if value and name not in event.match}
    return found


def said_of_any(missing: Mapping[str, str], asked: Mapping[str, str]) -> Iterator[str]:
    """Yield a sentence for each field of `not_in_price`."""
    for name, sku in missing.items():
        yield f"no price that applies names {name}={asked[name]}: {sku}, a price of any {name}, is taken"


def _some(names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ", ".join(ordered[:_SHOWN]) + (", ..." if len(ordered) > _SHOWN else "")


def _unpriced(book: PriceBook, context: Context, at_ms: int) -> TrainfareError:
    values = dict(zip(MATCH_FIELDS, context, strict=True))
    types = {
        event.match["gpu_type"]
        for event in book.events
        if event.component is Component.gpu
        and event.effective_ms <= at_ms
        and [name for name, value in event.match.items() if not is_met(name, value, values)] == ["gpu_type"]
    }
    if types and values["gpu_type"] is None:
        return WrongUseError(
            f"no price of GPU-time applies without a type: name --gpu-type, one of {_some(types)}"
        )
    return TrainfareError(_missing(book, context, at_ms))


def _missing(book: PriceBook, context: Context, at_ms: int) -> str:
    named = ", ".join(
        f"{name}={value}" for name, value in zip(MATCH_FIELDS, context, strict=True) if value is not None
    )
    return (
        f"unpriced: no SKU of component gpu (per gpu_hour or instance_hour) applies to {named or 'usage without any price field'} "
        f"at {_instant(at_ms)}; {_nearest(book, context, at_ms)}"
    )


def _nearest(book: PriceBook, context: Context, at_ms: int) -> str:
    """Name the SKU that lacks least, and what it asks for."""
    found = nearest(book, context, at_ms)
    if found is None:
        return "the store has no price of GPU-time: publish one with `trainfare prices load`"
    wants = [f"{name}={found.event.match[name]}" for name in found.fields]
    if found.is_later:
        wants.append(f"a time from {_instant(found.event.effective_ms)} on")
    if not wants:
        return f"{found.event.sku} has been replaced since"
    return f"the nearest, {found.event.sku}, asks for {', '.join(wants)}"


def _instant(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
