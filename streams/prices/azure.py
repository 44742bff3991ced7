"""Reads Azure's retail prices: virtual machines with Linux, on demand and spot, by the hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from streams.prices.cloud_rows import FAULTS, UtcInstant, document, instance_row, with_lines
from streams.prices.source import PriceList, SourceRow

_SERVICE: Final = "Virtual Machines"


class _RetailPrice(msgspec.Struct):
    usd: float = msgspec.field(name="retailPrice")
    currency: str = msgspec.field(name="currencyCode")
    at: UtcInstant = msgspec.field(name="effectiveStartDate")
    region: str = msgspec.field(name="armRegionName", default="")
    instance_type: str = msgspec.field(name="armSkuName", default="")
    product: str = msgspec.field(name="productName", default="")
    sku: str = msgspec.field(name="skuName", default="")
    service: str = msgspec.field(name="serviceName", default="")
    unit: str = msgspec.field(name="unitOfMeasure", default="")
    type: str = ""


class _RetailPage(msgspec.Struct):
    items: list[msgspec.Raw] = msgspec.field(name="Items")


def of_azure(given: PriceList) -> Iterator[SourceRow]:
    """Yield the prices of a page.

    Raises:
        WrongUseError: It is none, a price is none, or not in dollars.
    """
    for line, text in with_lines(given, document(given, _RetailPage, "retail prices of Azure").items):
        try:
            price = msgspec.json.decode(text, type=_RetailPrice)
        except FAULTS as fault:
            raise given.fault(line, f"not a retail price: {fault}") from None
        is_plain = "Windows" not in price.product and not price.sku.endswith("Low Priority")
        if not (
            is_plain
            and (price.service, price.type, price.unit) == (_SERVICE, "Consumption", "1 Hour")
            and price.instance_type
            and price.region
        ):
            continue
        if price.currency != "USD":
            raise given.fault(line, f"currencyCode {price.currency[:20]!r}, expected USD")
        yield instance_row(
            given,
            line,
            cloud=given.cloud or "azure",
            instance_type=price.instance_type,
            region=price.region,
            usd=f"{price.usd:.9f}",
            at=price.at,
            is_spot=price.sku.endswith("Spot"),
        )
