"""Reads Azure's retail prices: virtual machines with Linux, on demand and spot, by the hour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from streams.prices.cloud_rows import FAULTS, InstanceOffer, UtcInstant, counted_row, document, with_lines
from streams.prices.offers import SourceRow, TakenOffer
from streams.prices.source import PriceList

_SERVICE: Final = "Virtual Machines"
#: What meters of the same service, type and unit, and of the same `armSkuName`, are for instead of a plain machine, as
#: their product, SKU or meter says; small and without blanks.
_OTHERS: Final = {
    "windows": "other_system",
    "lowpriority": "low_priority",
    "cloudservices": "cloud_services",
    "dedicatedhost": "dedicated",
    "expired": "expired",
}


class _RetailPrice(msgspec.Struct):
    usd: float = msgspec.field(name="retailPrice")
    currency: str = msgspec.field(name="currencyCode")
    at: UtcInstant = msgspec.field(name="effectiveStartDate")
    until: UtcInstant | None = msgspec.field(name="effectiveEndDate", default=None)
    region: str = msgspec.field(name="armRegionName", default="")
    instance_type: str = msgspec.field(name="armSkuName", default="")
    product: str = msgspec.field(name="productName", default="")
    sku: str = msgspec.field(name="skuName", default="")
    service: str = msgspec.field(name="serviceName", default="")
    unit: str = msgspec.field(name="unitOfMeasure", default="")
    type: str = ""
    meter: str = msgspec.field(name="meterName", default="")
    meter_id: str = msgspec.field(name="meterId", default="")
    is_primary: bool = msgspec.field(name="isPrimaryMeterRegion", default=True)
    tier: float = msgspec.field(name="tierMinimumUnits", default=0.0)


class _RetailPage(msgspec.Struct):
    items: list[msgspec.Raw] = msgspec.field(name="Items")


def of_azure(given: PriceList) -> Iterator[SourceRow]:
    """Yield the prices of a page.

    Raises:
        WrongUseError: It is not a page of prices, or a price is not a number of dollars.
    """
    yield from given.offers.one_price_each(_offers(given))


def _offers(given: PriceList) -> Iterator[TakenOffer]:
    for line, text in with_lines(given, document(given, _RetailPage, "retail prices of Azure").items):
        try:
            price = msgspec.json.decode(text, type=_RetailPrice)
        except FAULTS as fault:
            raise given.fault(line, f"not a retail price: {fault}") from None
        taken = _taken(given, line, price)
        if taken is not None:
            yield taken


def _taken(given: PriceList, line: int, price: _RetailPrice) -> TakenOffer | None:
    purchase = InstanceOffer(
        given.cloud or "azure",
        price.instance_type,
        price.region,
        purchase="spot" if "Spot" in (price.sku.split(" ")[-1], price.meter.split(" ")[-1]) else "",
    )
    is_over = price.until is not None and price.until.timestamp() * 1000 < given.now_ms
    rule = _rule(price) or ("expired" if is_over else "")
    if rule:
        given.offers.passed(rule, purchase.gpu_place if price.instance_type and price.region else "")
        return None
    if price.currency != "USD":
        raise given.fault(line, f"currencyCode {price.currency[:20]!r}, expected USD")
    row = counted_row(given, line, purchase, f"{price.usd:.9f}", price.at)
    return None if row is None else TakenOffer(price.meter_id, purchase.place, [row])


def _rule(price: _RetailPrice) -> str:
    """The rule that passes over a meter; empty: it is what a machine is charged by."""
    if price.service != _SERVICE or not (price.instance_type and price.region):
        return "not_an_instance"
    if price.type != "Consumption":
        return "commitment"
    if price.unit != "1 Hour":
        return "not_an_instance"
    names = f"{price.product}/{price.sku}/{price.meter}".replace(" ", "").lower()
    other = next((rule for word, rule in _OTHERS.items() if word in names), "")
    if other or price.is_primary:
        return other or ("above_first" if price.tier else "")
    return "secondary_region"
