"""Reads prices of AWS: products of the price list (on-demand), and the history of spot prices.

It must not read what jobs on plain instances do not pay: reservations, other systems than Linux, dedicated hosts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from schemas.escaping import visible
from streams.prices.cloud_rows import FAULTS, UtcInstant, document, instance_rows, with_lines
from streams.prices.source import PriceList, SourceRow

_PLAIN: Final = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "capacitystatus": "Used",
    "preInstalledSw": "NA",
}
#: Older lists have no `marketoption`; then the operation tells capacity blocks, which are paid in advance, at $0.
_ON_DEMAND: Final = ("", "OnDemand")
_BLOCK: Final = ":CB"
_ZONE: Final = re.compile(r"([a-z]{2}(?:-[a-z]+)+-\d)(?:-[a-z]+-\d)?[a-z]\Z")
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
    if b'"PriceList"' not in given.content:
        bulk = document(given, _Bulk, "a price list of AWS")
        for sku, product in bulk.products.items():
            line = given.content.count(b"\n", 0, given.content.find(f'"{sku}"'.encode())) + 1
            yield from _rows(given, line, product, bulk.terms.on_demand.get(sku, {}))
        return
    for line, text in with_lines(given, document(given, _ProductsAnswer, "an answer of GetProducts").offers):
        try:
            inner = msgspec.json.decode(text, type=str).encode() if text[:1] == b'"' else text
            offer = msgspec.json.decode(inner, type=_ProductOffer)
        except FAULTS as fault:
            raise given.fault(line, f"not a product: {fault}") from None
        yield from _rows(given, line, offer.product, offer.terms.on_demand)


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
        if not price.product.startswith(_LINUX):
            continue
        region = _ZONE.match(price.zone)
        yield from instance_rows(
            given,
            line,
            cloud=given.cloud or "aws",
            instance_type=price.instance_type,
            region=region[1] if region is not None else "",
            zone=price.zone,
            usd=price.usd,
            at=price.at,
            is_spot=True,
        )


def _rows(given: PriceList, line: int, product: _Product, terms: Mapping[str, _Term]) -> Iterator[SourceRow]:
    attributes = product.attributes
    instance_type, region = attributes.get("instanceType", ""), attributes.get("regionCode", "")
    is_plain = all(attributes.get(name) == wanted for name, wanted in _PLAIN.items())
    if not (product.family.startswith("Compute Instance") and is_plain and instance_type and region):
        return
    market = attributes.get("marketoption", "")
    if market not in _ON_DEMAND or attributes.get("operation", "").endswith(_BLOCK):
        given.leave_out(
            f"price of {visible(market[:80]) or 'CapacityBlock'} for {visible(instance_type[:80])}"
        )
        return
    count = attributes.get("gpu", "0")
    for term in terms.values():
        for dimension in term.dimensions.values():
            if dimension.unit == "Hrs" and "USD" in dimension.usd:
                yield from instance_rows(
                    given,
                    line,
                    cloud=given.cloud or "aws",
                    instance_type=instance_type,
                    region=region,
                    usd=dimension.usd["USD"],
                    at=term.at,
                    gpus=int(count) if count.isascii() and count.isdigit() and len(count) < 6 else 0,
                )
