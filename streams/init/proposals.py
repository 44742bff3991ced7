"""Proposes a price and an alias for each GPU type, and says which kinds of GPUs no price fits. Pure functions.

Nothing is guessed: a name that leaves open which product is meant gets no proposal, but the choices.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from schemas.events import PRICE_FIELDS, Component, PriceEvent
from schemas.units import NANO_PER_USD
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Context, usage_context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.kinds import UNIT_OF_KIND, Kind
from streams.engine.pricing.nearest import Nearest, is_met, nearest
from streams.engine.rules.missing_price import MissingPriceFinder, UnpricedUsage
from streams.init.catalogue import CataloguePrice, catalogue
from streams.init.surroundings import GpuKind, Surroundings
from streams.prices.instants import since
from streams.prices.opencost import plain_usd

_NOT_IN_SKU: Final = re.compile(r"[^a-z0-9.]+")
_SKU_CHARS: Final = 60
_SPOT: Final = "spot"
_CHOICES: Final = 4


class GivenAnswers(NamedTuple):
    """What the user says: dollars per GPU-hour by type, another name by type, and price lists.

    `known_rows` and `known_prices` are what an earlier call, or a person, has written into the price list.
    """

    usd: Mapping[str, str]
    aliases: Mapping[str, str]
    lists: Sequence[PriceEvent]
    known_rows: Sequence[Mapping[str, str]] = ()
    known_prices: Sequence[PriceEvent] = ()


class Proposal(NamedTuple):
    """Other names of the scheduler's types, and rows of a price list with a cell for each column that they need."""

    aliases: Mapping[str, str]
    rows: Sequence[Mapping[str, str]]


class UnpricedKind(NamedTuple):
    """GPUs that no price fits, the line of a price list that would, and names that may be meant."""

    kind: GpuKind
    name: str  # of the type in prices
    header: str
    line: str
    choices: tuple[str, ...]


def propose(found: Surroundings, given: GivenAnswers, *, has_aliases: bool) -> Proposal:
    """A price for each kind of GPU: from the user's answers, the user's lists, what is written already, the catalogue.

    What is written already stays, but for what the user answers anew. Without `has_aliases` the source cannot be given other names of types: prices are for its own.
    """
    aliases = {type_: name for type_ in found.types if (name := _alias(type_, given, has_aliases))}
    book = PriceBook.empty().with_events(given.lists)
    known = PriceBook.empty().with_events(given.known_prices)
    rows: dict[str, dict[str, str]] = {}
    for kind in found.kinds:
        for row in _rows_of(kind, aliases.get(kind.gpu_type, kind.gpu_type), given, book, known):
            _add(row, rows)
    skus = {row["sku"] for row in rows.values()}
    return Proposal(
        aliases, [*(row for row in given.known_rows if row.get("sku") not in skus), *rows.values()]
    )


def unfit_lists(
    found: Surroundings, given: GivenAnswers, aliases: Mapping[str, str], now_ms: int
) -> list[str]:
    """Sentences about types that no price of the user's lists fits: the nearest one, and what it asks for beyond them."""
    book = PriceBook.empty().with_events(given.lists)
    said = dict[str, None]()
    for kind in found.kinds:
        name = aliases.get(kind.gpu_type, kind.gpu_type)
        if not given.lists or _said_of((kind.gpu_type, name), given.usd) or _fitting(kind, name, book):
            continue
        fields = {**kind.fields, "gpu_type": name}
        close = nearest(book, _context(fields), now_ms)
        hint = "" if close is None else _hint(close, given.lists)
        said[f"no price of your lists fits {name or 'GPUs without a type'}{hint}"] = None
    return list(said)


def free(prices: Sequence[PriceEvent]) -> list[str]:
    """Sentences about prices of $0: a price list may have one by mistake, and then what it matches costs nothing."""
    return [
        f"{event.sku} is $0: GPU-time that it matches costs nothing; if the price is only unknown, remove its line"
        for event in prices
        if event.component is Component.gpu and not event.usd_nano
    ]


def is_named(type_: str, names: Iterable[str]) -> bool:
    """Whether one of the names is this type, or another spelling of it."""
    return any(product(type_) == product(name) for name in names)


def unpriced(
    kinds: Sequence[GpuKind],
    aliases: Mapping[str, str],
    price_fields: Mapping[str, str],
    prices: Sequence[PriceEvent],
    now_ms: int,
) -> list[UnpricedKind]:
    """The kinds of GPUs that have no price at an instant, under the names and price fields that they are metered by."""
    book = PriceBook.empty().with_events(prices)
    finder = MissingPriceFinder(book)
    missing = []
    for kind in kinds:
        type_ = kind.gpu_type
        named = kind._replace(fields={**kind.fields, "gpu_type": aliases.get(type_, type_), **price_fields})
        context = _context(named.fields)
        if book.price_at(context, Component.gpu, Kind.GPU_TIME, now_ms) is None:
            usage = UnpricedUsage(Component.gpu, UNIT_OF_KIND[Kind.GPU_TIME], context)
            mend = finder.mend(usage, now_ms)
            header, line = (mend.header, mend.line) if mend else ("sku,gpu_type,usd,per,from", "")
            missing.append(UnpricedKind(kind, named.gpu_type, header, line, _choices(type_)))
    return missing


def _hint(close: Nearest, lists: Sequence[PriceEvent]) -> str:
    """What the user's lists have instead, and what would make the nearest price fit."""
    if "gpu_type" in close.fields:
        types = list(dict.fromkeys(event.match.get("gpu_type", "") for event in lists))
        more = f" and {len(types) - _CHOICES} more" if len(types) > _CHOICES else ""
        return f": they have {', '.join(types[:_CHOICES])}{more}"
    lacking = [f"{each}={close.event.match[each]}" for each in close.fields]
    if not lacking:
        return ""
    options = " ".join(f"--price-field {shlex.quote(each)}" for each in lacking)
    return f"; the nearest, {close.event.sku}, asks for {' '.join(lacking)}: if all jobs have that, {options}"


def _said_of(names: Sequence[str], answers: Mapping[str, str]) -> str:
    """What the user says of a type by one of its names, or by another spelling of one; empty: nothing."""
    exact = (answers[name] for name in names if name in answers)
    spelled = (answer for said, answer in answers.items() if is_named(said, names))
    return next(exact, "") or next(spelled, "")


def _context(fields: Mapping[str, str]) -> Context:
    return usage_context(tuple(fields.get(name) or None for name in PRICE_FIELDS), None, None)


def _alias(type_: str, given: GivenAnswers, has_aliases: bool) -> str:
    """Another name of a type, under which there are prices; empty: its own is kept."""
    if not type_ or not has_aliases:
        return ""
    if said := _said_of((type_,), given.aliases):
        return said
    listed = (event.match.get("gpu_type", "") for event in given.lists)
    written = (event.match.get("gpu_type", "") for event in given.known_prices)
    names = [*listed, *written, *(price.gpu_type for price in catalogue())]
    same = [name for name in names if name and product(name) == product(type_)]
    return "" if not same or type_ in same else same[0]


def _rows_of(
    kind: GpuKind, name: str, given: GivenAnswers, book: PriceBook, known: PriceBook
) -> list[dict[str, str]]:
    if usd := _said_of((kind.gpu_type, name), given.usd):
        return [_row(name, {}, usd, "as given")]
    if listed := _fitting(kind, name, book):
        return [_row_of(event) for event in listed]
    if _fitting(kind, name, known):
        return []
    same = [price for price in catalogue() if product(price.gpu_type) == product(name)]
    found = min(same, key=lambda price: _distance(price, kind), default=None)
    if found is None or (found.purchase == _SPOT and kind.fields.get("purchase") != _SPOT):
        return []
    cloud = kind.fields.get("cloud", "")
    match = {"cloud": cloud if cloud == found.cloud else "", "purchase": found.purchase}
    return [_row(name, match, found.usd, _note(found, kind))]


def _fitting(kind: GpuKind, name: str, book: PriceBook) -> list[PriceEvent]:
    """The prices of GPU-time for a kind, in all their revisions."""
    values = {field: kind.fields.get(field) for field in PRICE_FIELDS} | {"gpu_type": name}
    return [
        event
        for event in book.events
        if event.component is Component.gpu
        and all(
            field in PRICE_FIELDS and is_met(field, value, values) for field, value in event.match.items()
        )
    ]


def _add(row: dict[str, str], rows: dict[str, dict[str, str]]) -> None:
    """Add a row, under another SKU where there is one of its SKU and date that differs."""
    sku, number = row["sku"], 1
    while (known := rows.setdefault(f"{row['sku']}@{row['from']}", row)) is not row:
        if {**known, "note": ""} == {**row, "note": ""}:
            return
        number += 1
        row["sku"] = f"{sku}-{number}"


def _note(price: CataloguePrice, kind: GpuKind) -> str:
    place = f"list price of {price.cloud} {price.source}"
    wanted = {name: kind.fields.get(name, "") for name in ("cloud", "region")}
    if not wanted["cloud"]:
        return f"{place}; a stand-in: for GPUs that you own, trainfare prices amortize"
    differs = " ".join(value for name, value in wanted.items() if value and value != getattr(price, name))
    return f"{place}; a stand-in: the catalogue has none of {differs}" if differs else place


def _distance(price: CataloguePrice, kind: GpuKind) -> tuple[bool, bool, bool]:
    """How little a price is for a kind of GPU; the first of equal ones is taken."""
    is_spot = kind.fields.get("purchase") == _SPOT
    return (
        (price.purchase == _SPOT) != is_spot,
        price.cloud != kind.fields.get("cloud", ""),
        price.region != kind.fields.get("region", ""),
    )


def _row(gpu_type: str, match: Mapping[str, str], usd: str, note: str) -> dict[str, str]:
    named = {name: value for name, value in match.items() if value}
    words = ("gpu", _NOT_IN_SKU.sub("-", gpu_type.lower()).strip("-") or "any", *named.values())
    row = {"sku": ".".join(words)[:_SKU_CHARS], "gpu_type": gpu_type, **named}
    return {**row, "usd": usd, "per": "gpu_hour", "gpus": "", "from": "", "note": note}


def _row_of(event: PriceEvent) -> dict[str, str]:
    begin = since(event.effective_ms) if event.effective_ms else ""
    usd = plain_usd(Decimal(event.usd_nano) / NANO_PER_USD)
    gpus = str(event.gpus) if event.per == "instance_hour" and event.gpus else ""
    cells = {"usd": usd, "per": str(event.per), "gpus": gpus, "from": begin, "note": "from your list"}
    return {"sku": event.sku, **event.match, **cells}


def _choices(type_: str) -> tuple[str, ...]:
    """The products of the catalogue that a name may mean, which leaves open which."""
    models = {word for word in re.split(r"[^a-z0-9]+", type_.lower()) if word}
    found = [price.gpu_type for price in catalogue() if product(price.gpu_type).split("/")[0] in models]
    return tuple(dict.fromkeys(found))[:_CHOICES]
