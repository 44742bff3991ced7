"""Reads SKUs of Google's Cloud Billing catalogue: GPUs alone, by the hour. Hosts are sold by CPU and memory, apart."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec

from streams.accounts.accelerators import is_accelerator
from streams.prices.cloud_rows import FAULTS, UtcInstant, document, with_lines
from streams.prices.offers import SourceRow, TakenOffer, place_of
from streams.prices.opencost import exact_usd, plain_usd
from streams.prices.source import PriceList

_USAGE: Final = {"OnDemand": "", "Preemptible": "spot"}
_GPU: Final = re.compile(
    r"(?P<spot>Spot Preemptible )?(?:A\d[A-Z]? )?(?:Nvidia )?(?:Tesla )?(?P<gpu>[A-Z]+\d[A-Za-z0-9]*(?: \d+GB)?(?: Mega| Plus)?(?: \d+GB)?)"
    r"(?: GPU| \(1 gpu slice\)) (?P<attached>attached to Spot Preemptible VMs )?running in "
)
#: What machines are called otherwise by; A3 Mega has two names, by region.
_TYPES: Final = {
    "A100 80GB": "A100-80GB",
    "H100 80GB Mega": "H100-MEGA",
    "H100 80GB Plus": "H100-MEGA",
    "H100 Mega 80GB": "H100-MEGA",
}
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
    sku_id: str = msgspec.field(name="skuId", default="")


class _Catalogue(msgspec.Struct):
    skus: list[msgspec.Raw]


def of_gcp(given: PriceList) -> Iterator[SourceRow]:
    """Yield the prices of GPUs, each for every region in which it holds.

    Raises:
        WrongUseError: It is no catalogue, a price is none, or not in dollars.
    """
    yield from given.offers.one_price_each(_offers(given))


def _offers(given: PriceList) -> Iterator[TakenOffer]:
    for line, text in with_lines(given, document(given, _Catalogue, "Google's catalogue").skus):
        try:
            sku = msgspec.json.decode(text, type=_CatalogueSku)
        except FAULTS as fault:
            raise given.fault(line, f"not a SKU: {fault}") from None
        named = _GPU.match(sku.description)
        if sku.category.group != "GPU" and not is_accelerator(sku.description):
            given.offers.passed("host_parts")
        elif sku.category.usage.startswith("Commit"):
            given.offers.passed("commitment")
        elif sku.category.usage not in _USAGE or named is None:
            given.offers.missed("unlisted_gpu", f"{sku.category.usage} {sku.description}".strip())
        else:
            gpu_type = _TYPES.get(named["gpu"]) or _MEMORY.sub("", named["gpu"])
            is_spot = bool(named["spot"] or named["attached"])
            taken = _taken(given, line, sku, gpu_type, "spot" if is_spot else _USAGE[sku.category.usage])
            if taken is not None:
                yield taken


def _taken(
    given: PriceList, line: int, sku: _CatalogueSku, gpu_type: str, purchase: str
) -> TakenOffer | None:
    place = place_of(gpu_type, ", ".join(sku.regions) or "no region", purchase)
    hourly = [each for each in sku.pricing if each.expression.unit == "h" and each.expression.rates]
    asked = [(_usd(given, line, each.expression.rates[-1].price), each.at) for each in hourly]
    rows = [
        _row(given, line, (gpu_type, region, purchase), usd, given.from_ms or round(at.timestamp() * 1000))
        for usd, at in asked
        if float(usd) != 0
        for region in sku.regions
    ]
    if not rows:
        given.offers.passed("zero" if asked else "without_price", place)
        return None
    return TakenOffer(sku.sku_id, place, rows)


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
