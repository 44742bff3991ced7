"""Reads Azure's retail prices: virtual machines with Linux, on demand and spot, by the hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.escaping import visible
from streams.prices.cloud_rows import FAULTS, UtcInstant, document, instance_rows, with_lines
from streams.prices.source import PriceList, SourceRow

_SERVICE: Final = "Virtual Machines"
#: What meters of the same service, type and unit, and of the same `armSkuName`, are for instead of a plain machine, as
#: their product, SKU or meter says; small and without blanks.
_OTHERS: Final = {
    "cloudservices": "meter of Cloud Services",
    "dedicatedhost": "meter of dedicated hosts",
    "expired": "expired meter",
}


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
    meter: str = msgspec.field(name="meterName", default="")
    is_primary: bool = msgspec.field(name="isPrimaryMeterRegion", default=True)
    tier: float = msgspec.field(name="tierMinimumUnits", default=0.0)


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
        names = f"{price.product}/{price.sku}/{price.meter}".replace(" ", "").lower()
        if not (
            "windows" not in names
            and "lowpriority" not in names
            and (price.service, price.type, price.unit) == (_SERVICE, "Consumption", "1 Hour")
            and price.instance_type
            and price.region
        ):
            continue
        other = _other(price, names)
        if other:
            given.leave_out(f"{other} for {visible(price.instance_type[:80])}")
            continue
        if price.currency != "USD":
            raise given.fault(line, f"currencyCode {price.currency[:20]!r}, expected USD")
        yield from instance_rows(
            given,
            line,
            cloud=given.cloud or "azure",
            instance_type=price.instance_type,
            region=price.region,
            usd=f"{price.usd:.9f}",
            at=price.at,
            is_spot="Spot" in (price.sku.split(" ")[-1], price.meter.split(" ")[-1]),
        )


def _other(price: _RetailPrice, names: str) -> str:
    """Return what a meter is for if it is not what a machine is charged by; empty: it is."""
    if not price.is_primary:
        return "meter of a secondary region"
    if price.tier:
        return "price above a first amount"
    return next((said for word, said in _OTHERS.items() if word in names), "")
