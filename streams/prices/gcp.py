"""Reads SKUs of Google's Cloud Billing catalogue: GPUs alone, by the hour. Hosts are sold by CPU and memory, apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from schemas.escaping import visible
from streams.prices.cloud_rows import FAULTS, UtcInstant, document, with_lines
from streams.prices.opencost import exact_usd, plain_usd
from streams.prices.source import PriceList, SourceRow

_USAGE: Final = {"OnDemand": "", "Preemptible": "spot"}
_GPU: Final = re.compile(
    r"Nvidia (?:Tesla )?(?P<gpu>[A-Z][A-Za-z0-9]+(?: \d+GB)?) GPU (?:attached to Spot Preemptible VMs )?running in "
)
_TYPES: Final = {"A100 80GB": "A100-80GB"}
_MEMORY: Final = re.compile(r" \d+GB\Z")


class _Money(msgspec.Struct):
    currency: str = msgspec.field(name="currencyCode", default="USD")
    units: str | int = 0
    nanos: int = 0


class _Rate(msgspec.Struct):
    price: _Money = msgspec.field(name="unitPrice")
    begin: float = msgspec.field(name="startUsageAmount", default=0.0)


class _Expression(msgspec.Struct):
    unit: str = msgspec.field(name="usageUnit", default="")
    rates: list[_Rate] = msgspec.field(name="tieredRates", default_factory=list)


class _Pricing(msgspec.Struct):
    expression: _Expression = msgspec.field(name="pricingExpression")
    at: UtcInstant = msgspec.field(name="effectiveTime")


class _Category(msgspec.Struct):
    group: str = msgspec.field(name="resourceGroup", default="")
    usage: str = msgspec.field(name="usageType", default="")


class _CatalogueSku(msgspec.Struct):
    description: str
    category: _Category
    regions: list[str] = msgspec.field(name="serviceRegions", default_factory=list)
    pricing: list[_Pricing] = msgspec.field(name="pricingInfo", default_factory=list)


class _Catalogue(msgspec.Struct):
    skus: list[msgspec.Raw]


def of_gcp(given: PriceList) -> Iterator[SourceRow]:
    """Yield the prices of GPUs, each for every region in which it holds.

    Raises:
        WrongUseError: It is no catalogue, a price is none, or not in dollars.
    """
    for line, text in with_lines(given, document(given, _Catalogue, "Google's catalogue").skus):
        try:
            sku = msgspec.json.decode(text, type=_CatalogueSku)
        except FAULTS as fault:
            raise given.fault(line, f"not a SKU: {fault}") from None
        named = _GPU.match(sku.description)
        if sku.category.group != "GPU" or sku.category.usage not in _USAGE or named is None:
            continue
        gpu_type = _TYPES.get(named["gpu"]) or _MEMORY.sub("", named["gpu"])
        for pricing in sku.pricing:
            rates = pricing.expression.rates
            if pricing.expression.unit == "h" and rates:
                usd = _usd(given, line, rates[-1].price)
                if float(usd) == 0:
                    given.leave_out(f"price of $0 for {visible(gpu_type[:80])}")
                    continue
                at_ms = given.from_ms or round(pricing.at.timestamp() * 1000)
                for region in sku.regions:
                    yield _row(given, line, (gpu_type, region, _USAGE[sku.category.usage]), usd, at_ms)


def _row(given: PriceList, line: int, match: tuple[str, str, str], usd: str, at_ms: int) -> SourceRow:
    cloud = given.cloud or "gcp"
    gpu_type, region, purchase = match
    record: dict[str, object] = {
        "sku": ".".join(filter(None, (cloud, f"gpu.{gpu_type}", region, purchase))),
        "component": "gpu",
        "usd": usd,
        "per": "gpu_hour",
        "effective_ms": at_ms,
        "cloud": cloud,
        "region": region,
        "gpu_type": gpu_type,
    }
    return SourceRow(line, record | ({"purchase": purchase} if purchase else {}))


def _usd(given: PriceList, line: int, money: _Money) -> str:
    if money.currency != "USD":
        raise given.fault(line, f"currencyCode {money.currency[:20]!r}, expected USD")
    try:
        return plain_usd(exact_usd(f"{money.units}.{money.nanos:09d}"))
    except ValueError as fault:
        raise given.fault(line, f"unitPrice: {fault}") from None
