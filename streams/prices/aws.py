"""Reads prices of AWS: products of the price list (on-demand), and the history of spot prices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from streams.accounts.accelerators import is_accelerator
from streams.prices.cloud_rows import (
    FAULTS,
    InstanceOffer,
    UtcInstant,
    counted_row,
    document,
    instance_row,
    with_lines,
)
from streams.prices.offers import SourceRow, TakenOffer
from streams.prices.source import PriceList

#: Attribute -> what a plain instance has there, and by which rule another one is passed over.
_PLAIN: Final = {
    "operatingSystem": ("Linux", "other_system"),
    "preInstalledSw": ("NA", "other_system"),
    "tenancy": ("Shared", "dedicated"),
    "capacitystatus": ("Used", "unused"),
}
#: Older lists have no `marketoption`; then the operation tells capacity blocks, which are paid in advance, at $0.
_ON_DEMAND: Final = ("", "OnDemand")
_BLOCK: Final = ":CB"
_ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)(?:-[a-z]+-\d)?[a-z]\Z")
#: A local zone as the region of a product; nodes there have the region beside it, and its zones have a letter more.
_LOCAL: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)-[a-z]{3}-\d")
_LETTERS: Final = "ab"
_LINUX: Final = "Linux/UNIX"


class _Dimension(msgspec.Struct):
    unit: str = ""
    usd: dict[str, str] = msgspec.field(name="pricePerUnit", default_factory=dict)


class _Term(msgspec.Struct):
    at: UtcInstant = msgspec.field(name="effectiveDate")
    dimensions: dict[str, _Dimension] = msgspec.field(name="priceDimensions", default_factory=dict)


class _Product(msgspec.Struct):
    sku: str
    family: str = msgspec.field(name="productFamily", default="")
    attributes: dict[str, str] = {}


class _Terms(msgspec.Struct):
    on_demand: dict[str, _Term] = msgspec.field(name="OnDemand", default_factory=dict)


class _ProductOffer(msgspec.Struct):
    """One entry of GetProducts."""

    product: _Product
    terms: _Terms = msgspec.field(default_factory=_Terms)


class _ProductsAnswer(msgspec.Struct):
    """GetProducts: each entry an object, or a text with one."""

    offers: list[msgspec.Raw] = msgspec.field(name="PriceList")


class _BulkTerms(msgspec.Struct):
    on_demand: dict[str, dict[str, _Term]] = msgspec.field(name="OnDemand", default_factory=dict)


class _Bulk(msgspec.Struct):
    """A file of the bulk API."""

    products: dict[str, _Product]
    terms: _BulkTerms


class _SpotPrice(msgspec.Struct):
    zone: str = msgspec.field(name="AvailabilityZone")
    instance_type: str = msgspec.field(name="InstanceType")
    usd: str = msgspec.field(name="SpotPrice")
    at: UtcInstant = msgspec.field(name="Timestamp")
    product: str = msgspec.field(name="ProductDescription", default=_LINUX)


class _History(msgspec.Struct):
    prices: list[msgspec.Raw] = msgspec.field(name="SpotPriceHistory")


def of_aws(given: PriceList) -> Iterator[SourceRow]:
    """Yield the on-demand prices of Linux instances, from what GetProducts answers or from a file of the bulk API.

    Raises:
        WrongUseError: It is neither, or a price is none.
    """
    taken = (_taken(given, *product) for product in _products(given))
    yield from given.offers.one_price_each(offer for offer in taken if offer is not None)


def _products(given: PriceList) -> Iterator[tuple[int, _Product, Mapping[str, _Term]]]:
    """Yield each product with its line and its on-demand terms."""
    if b'"PriceList"' not in given.content:
        bulk = document(given, _Bulk, "a price list of AWS")
        for sku, product in bulk.products.items():
            line = given.content.count(b"\n", 0, given.content.find(f'"{sku}"'.encode())) + 1
            yield line, product, bulk.terms.on_demand.get(sku, {})
        return
    for line, text in with_lines(given, document(given, _ProductsAnswer, "an answer of GetProducts").offers):
        try:
            inner = msgspec.json.decode(text, type=str).encode() if text[:1] == b'"' else text
            offer = msgspec.json.decode(inner, type=_ProductOffer)
        except FAULTS as fault:
            raise given.fault(line, f"not a product: {fault}") from None
        yield line, offer.product, offer.terms.on_demand


def of_aws_spot(given: PriceList) -> Iterator[SourceRow]:
    """Yield the spot prices of Linux instances, each from its time on, by zone.

    Raises:
        WrongUseError: It is no such history, or a price is none.
    """
    for line, text in with_lines(given, document(given, _History, "a history of spot prices").prices):
        try:
            price = msgspec.json.decode(text, type=_SpotPrice)
        except FAULTS as fault:
            raise given.fault(line, f"not a spot price: {fault}") from None
        region = _ZONE.match(price.zone)
        purchase = InstanceOffer(
            given.cloud or "aws",
            price.instance_type,
            region[1] if region is not None else "",
            price.zone,
            "spot",
        )
        if not price.product.startswith(_LINUX):
            given.offers.passed("other_system", purchase.gpu_place)
            continue
        row = counted_row(given, line, purchase, price.usd, price.at)
        if row is not None:
            given.offers.taken(place=purchase.place)
            yield row


def _rule(product: _Product) -> str:
    """The rule that passes over a product; empty: it is what a job on a plain instance pays."""
    attributes = product.attributes
    if not (
        product.family.startswith("Compute Instance")
        and attributes.get("instanceType")
        and attributes.get("regionCode")
    ):
        return "not_an_instance"
    if attributes.get("marketoption", "") not in _ON_DEMAND or attributes.get("operation", "").endswith(
        _BLOCK
    ):
        return "capacity_block"
    return next((rule for name, (plain, rule) in _PLAIN.items() if attributes.get(name) != plain), "")


def _taken(given: PriceList, line: int, product: _Product, terms: Mapping[str, _Term]) -> TakenOffer | None:
    attributes = product.attributes
    type_ = attributes.get("instanceType", "")
    count = attributes.get("gpu", "")
    gpus: int | None = int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0
    if not count and is_accelerator(type_):
        gpus = None  # Trainium and others are not counted there
    region = attributes.get("regionCode", "")
    local = _LOCAL.fullmatch(region)
    zones = [f"{region}{letter}" for letter in _LETTERS] if local else [""]
    purchase = InstanceOffer(given.cloud or "aws", type_, local[1] if local else region, zones[0], gpus=gpus)
    place = purchase.gpu_place if gpus is None or count.strip("0") else ""
    rule = _rule(product)
    if rule:
        given.offers.passed(rule, place)
        return None
    asked = [
        (dimension.usd["USD"], term.at)
        for term in terms.values()
        for dimension in term.dimensions.values()
        if dimension.unit == "Hrs" and "USD" in dimension.usd
    ]
    if purchase.gpu_count is None:
        given.offers.missed("unlisted_instance", purchase.place)
        return None
    found = (
        instance_row(given, line, purchase._replace(zone=zone), usd, at)
        for usd, at in asked
        for zone in zones
    )
    rows = [row for row in found if row is not None]
    if not rows:
        given.offers.passed("zero" if asked else "without_price", place)
        return None
    return TakenOffer(product.sku, purchase.place, rows)
