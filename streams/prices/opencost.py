"""Reads the default prices of OpenCost (`configs/*.json`): CPU, RAM, GPU, storage and network egress."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import ROUND_HALF_EVEN, Decimal, InvalidOperation
from typing import Any, Final, NamedTuple

from schemas.escaping import visible
from schemas.units import HOURS_PER_MONTH
from streams.errors import WrongUseError
from streams.prices.offers import SourceRow
from streams.prices.source import PriceList

MAX_BYTES: Final = 2**20
NANO: Final = Decimal("1e-9")


class _Default(NamedTuple):
    sku: str
    component: str
    per: str
    match: dict[str, str]
    hours: int = 1  # of `per`, for one hour of OpenCost's price


_SPOT: Final = {"purchase": "spot"}
_FIELDS: Final = {
    "CPU": _Default("cpu", "compute", "vcpu_hour", {}),
    "spotCPU": _Default("cpu.spot", "compute", "vcpu_hour", _SPOT),
    "RAM": _Default("memory", "compute", "memory_gib_hour", {}),
    "spotRAM": _Default("memory.spot", "compute", "memory_gib_hour", _SPOT),
    "GPU": _Default("gpu", "gpu", "gpu_hour", {}),
    "spotGPU": _Default("gpu.spot", "gpu", "gpu_hour", _SPOT),
    "storage": _Default("storage", "storage", "gib_month", {"op": "stored"}, HOURS_PER_MONTH),
    "zoneNetworkEgress": _Default(
        "net.cross_zone", "network", "gb", {"path": "cross_zone", "direction": "egress"}
    ),
    "regionNetworkEgress": _Default(
        "net.cross_region", "network", "gb", {"path": "cross_region", "direction": "egress"}
    ),
    "internetNetworkEgress": _Default(
        "net.internet", "network", "gb", {"path": "internet", "direction": "egress"}
    ),
}


#: An amount in dollars or percent, that is not zero.
_AMOUNT: Final = re.compile(r"\s*[$]?\s*\d{1,12}(?:\.\d{1,12})?\s*%?\s*")
_DIGITS: Final = re.compile(r"[1-9]")
#: What else OpenCost has a price for: gateways, load balancers, and shared costs of Kubecost.
_PRICE: Final = re.compile(r"(?:gress|Cost|Price|Overhead)\Z")


def is_opencost(content: bytes) -> bool:
    """Whether the content is one JSON object with prices as OpenCost names them."""
    return len(content) <= MAX_BYTES and _is_prices(_parsed(content))


def of_opencost(given: PriceList) -> Iterator[SourceRow]:
    """Yield a record for each price that the file has; the cloud is the user's, else the file's `provider`.

    Raises:
        WrongUseError: It is no such file, or a price is no number.
    """
    if len(given.content) > MAX_BYTES:
        raise WrongUseError(f"{given.name}: more than {MAX_BYTES} bytes; no file of OpenCost's defaults")
    found = _parsed(given.content)
    if not isinstance(found, dict) or not _is_prices(found):
        raise WrongUseError(
            f"{given.name}: not OpenCost's prices; expected a JSON object with CPU, RAM or GPU"
        )
    _account(given, found)
    cloud = given.cloud or _provider(found)
    match = {"cloud": cloud} if cloud else {}
    for name, field in _FIELDS.items():
        text = found.get(name)
        if text is None or text == "":
            continue
        position = given.content.find(f'"{name}"'.encode())
        line = given.content.count(b"\n", 0, position) + 1
        given.offers.taken()
        yield SourceRow(
            line,
            {
                "sku": ".".join(filter(None, ("opencost", cloud, field.sku))),
                "component": field.component,
                "usd": _usd(given, line, name, text, field.hours),
                "per": field.per,
                "effective_ms": given.from_ms,
                **match,
                **field.match,
            },
        )


def exact_usd(text: str) -> Decimal:
    """The dollars of a plain number that other programs wrote, rounded to nano-dollars, half to even.

    Raises:
        ValueError: It is no number from 0 to a million.
    """
    try:
        value = Decimal(text) if len(text) <= 64 else Decimal("NaN")
    except InvalidOperation:
        value = Decimal("NaN")
    if not (value.is_finite() and 0 <= value < 1_000_000):
        raise ValueError("expected a number of dollars that is not negative")
    return value.quantize(NANO, ROUND_HALF_EVEN)


def plain_usd(value: Decimal) -> str:
    """Dollars as a decimal string without zeros at its end."""
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


def _usd(given: PriceList, line: int, name: str, value: object, hours: int) -> str:
    try:
        price = Decimal(str(value).strip()) if len(str(value)) <= 64 else Decimal("NaN")
        return plain_usd(exact_usd(str(price * hours)))
    except (ValueError, InvalidOperation):
        raise given.fault(
            line, f"field `{name}`: got {str(value)[:80]!r}, expected a number of dollars"
        ) from None


def _account(given: PriceList, found: dict[str, Any]) -> None:
    """Say which prices and discounts are not read; refuse another currency.

    Raises:
        WrongUseError: It is not in dollars.
    """
    currency = str(found.get("currencyCode") or "USD")
    if currency != "USD":
        raise WrongUseError(
            f"{given.name}: currencyCode {visible(currency[:20])!r}, expected USD; nothing was published"
        )
    for name, value in found.items():
        if name in _FIELDS or not _AMOUNT.fullmatch(str(value)) or not _DIGITS.search(str(value)):
            continue
        if name.lower().endswith("discount"):
            given.offers.missed("discount", f"{name}: {value}")
        elif _PRICE.search(name):
            given.offers.missed("unlisted_price", f"{name}: {value}")


def _provider(found: dict[str, Any]) -> str:
    provider = found.get("provider")
    name = provider.strip().lower() if isinstance(provider, str) else ""
    return "" if name == "custom" else name


def _is_prices(found: object) -> bool:
    return isinstance(found, dict) and bool({"CPU", "RAM", "GPU"} & found.keys()) and "sku" not in found


def _parsed(content: bytes) -> object:
    try:
        return json.loads(content, parse_float=str, parse_int=str)
    except (ValueError, RecursionError):
        return None
