"""Turns a price list of any format into valid records of `prices`, ready to be published or written to a file.

A list is accepted as a whole, or refused with the line and field of its first fault.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import PriceEvent
from schemas.invalid import Invalid
from schemas.wire_types import MAX_NAME_BYTES
from streams.errors import WrongUseError
from streams.prices.aws import of_aws, of_aws_spot
from streams.prices.azure import of_azure
from streams.prices.csv_rows import of_csv
from streams.prices.gcp import of_gcp
from streams.prices.json_rows import of_array, of_lines
from streams.prices.offers import SourceRow
from streams.prices.opencost import is_opencost, of_opencost
from streams.prices.skypilot import of_skypilot
from streams.prices.source import PriceFormat, PriceList
from streams.topics import Topic

AHEAD_MS: Final = 300_000
#: Of one list: a small packed file may hold more than fit in memory.
RECORDS_MAX: Final = 500_000
LOADED: Final = "trainfare prices load"

_ADAPTERS: Final[dict[PriceFormat, Callable[[PriceList], Iterator[SourceRow]]]] = {
    PriceFormat.jsonl: of_lines,
    PriceFormat.json: of_array,
    PriceFormat.csv: of_csv,
    PriceFormat.opencost: of_opencost,
    PriceFormat.skypilot: of_skypilot,
    PriceFormat.aws: of_aws,
    PriceFormat.aws_spot: of_aws_spot,
    PriceFormat.azure: of_azure,
    PriceFormat.gcp: of_gcp,
}
#: What the documents of clouds begin with, among their first bytes.
_CLOUD_KEYS: Final = {
    b'"PriceList"': PriceFormat.aws,
    b'"offerCode"': PriceFormat.aws,
    b'"SpotPriceHistory"': PriceFormat.aws_spot,
    b'"BillingCurrency"': PriceFormat.azure,
    b'"Items"': PriceFormat.azure,
    b'"skus"': PriceFormat.gcp,
}
_LOOKED_AT_BYTES: Final = 2_000


class PriceRecord(NamedTuple):
    """One valid price, in the form that is published."""

    line: int
    key: bytes
    value: bytes
    event: PriceEvent


def format_of(given: PriceList) -> PriceFormat:
    """The format of a list, by its content; a name that ends in `.csv` or `.jsonl` settles what is unclear."""
    head = given.content.lstrip(b"\xef\xbb\xbf \t\r\n")
    if head[:1] == b"[":
        return PriceFormat.json
    if head[:1] == b"{":
        begin = head[:_LOOKED_AT_BYTES].partition(b'"sku"')[0]  # records of our own have it first
        cloud = next((form for key, form in _CLOUD_KEYS.items() if key in begin), None)
        if cloud is not None:
            return cloud
        return PriceFormat.opencost if is_opencost(given.content) else PriceFormat.jsonl
    name = given.name.lower().removesuffix(".gz").removesuffix(".zst")
    columns = {
        cell.strip(' "\r') for cell in head.split(b"\n", 1)[0].decode("utf-8", "replace").lower().split(",")
    }
    if {"instancetype", "spotprice"} <= columns:
        return PriceFormat.skypilot
    return PriceFormat.csv if name.endswith(".csv") or "sku" in columns else PriceFormat.jsonl


def records_of(
    given: PriceList,
    form: PriceFormat,
    time_ms: int,
    source: str = LOADED,
    *,
    newest_allowed_ms: int | None = None,
) -> list[PriceRecord]:
    """The records of a list; missing `id`, `source` and `time_ms` are generated.

    A `time_ms` that a record names may be at most 5 min after `newest_allowed_ms`, or the given `time_ms` without it.

    Raises:
        WrongUseError: The list is invalid, empty, or names one revision twice.
    """
    newest_ms = (time_ms if newest_allowed_ms is None else newest_allowed_ms) + AHEAD_MS
    given = replace(given, now_ms=newest_ms)
    found: list[PriceRecord] = []
    lines: dict[tuple[bytes, str, str, int], PriceRecord] = {}
    for line, record in _ADAPTERS[form](given):
        if len(found) >= RECORDS_MAX:
            raise given.fault(line, f"more than {RECORDS_MAX} prices; split the list into several files")
        revision = f"{record.get('sku')}@{record.get('effective_ms')}"
        complete = {"id": _id(revision), "source": source, "time_ms": time_ms, **record}
        checked = _checked(given, line, complete, newest_ms)
        event = checked.event
        before = lines.setdefault((checked.key, event.id, event.source, event.time_ms), checked)
        if before is checked:
            found.append(checked)
        elif before.event != event:
            raise given.fault(
                line, f"sku {event.sku!r} has another price from the same time on line {before.line}"
            )
    account = given.offers.total()
    if not found and account.read:
        raise WrongUseError(f"{given.name}: no price of a plain instance or GPU\n{account}")
    if not found:
        raise WrongUseError(
            f"{given.name}: no price records; expected JSON lines, a JSON array, CSV with a header, "
            "OpenCost's JSON, SkyPilot's catalogue, or a document of AWS, Azure or Google"
        )
    return found


def _checked(given: PriceList, line: int, record: dict[str, object], newest_ms: int) -> PriceRecord:
    try:
        value = msgspec.json.encode(record)
    except (TypeError, ValueError, RecursionError) as fault:
        raise given.fault(line, str(fault)) from None
    event = decode(Topic.PRICES, value, (), newest_ms)
    if isinstance(event, Invalid):
        raise given.fault(line, event.detail)
    assert isinstance(event, PriceEvent)  # by its topic
    return PriceRecord(line, f"{event.sku}@{event.effective_ms}".encode(), value, event)


def _id(name: str) -> str:
    """The name, or a digest if it would be too long for an id."""
    given = name.encode("utf-8", "surrogatepass")
    return name if len(given) <= MAX_NAME_BYTES else hashlib.sha256(given).hexdigest()


def as_lines(records: list[PriceRecord]) -> Iterator[bytes]:
    """Yield the records as `trainfare replay` and `publish` read them, one a line."""
    return chain.from_iterable((b'{"topic":"prices","value":', record.value, b"}\n") for record in records)
