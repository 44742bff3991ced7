"""What rows of clouds' own price documents have in common: entries with their lines, and prices of whole instances.

An on-demand price has no `purchase`, so that it also holds for what no other price does; as of SkyPilot's catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Final, TypeVar

import msgspec

from schemas.escaping import visible
from streams.errors import WrongUseError
from streams.prices.instance_gpus import gpus_of
from streams.prices.opencost import exact_usd, plain_usd
from streams.prices.source import PriceList, SourceRow

T = TypeVar("T")
UtcInstant = Annotated[datetime, msgspec.Meta(tz=True)]
FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def document(given: PriceList, form: type[T], what: str) -> T:
    """Return a document.

    Raises:
        WrongUseError: It is none.
    """
    try:
        return msgspec.json.decode(given.content, type=form)
    except FAULTS as fault:
        raise WrongUseError(f"{given.name}: not {what}: {fault}; nothing was published") from None


def with_lines(given: PriceList, entries: Sequence[msgspec.Raw]) -> Iterator[tuple[int, bytes]]:
    """Yield entries of a document, each with the number of its first line."""
    position, line = 0, 1
    for entry in entries:
        text = bytes(entry)
        found = given.content.index(text, position)
        line += given.content.count(b"\n", position, found) + text.count(b"\n")
        yield line - text.count(b"\n"), text
        position = found + len(text)


def instance_rows(
    given: PriceList,
    line: int,
    *,
    cloud: str,
    instance_type: str,
    region: str,
    usd: str,
    at: datetime,
    zone: str = "",
    is_spot: bool = False,
    gpus: int | None = None,
) -> Iterator[SourceRow]:
    """Yield the price of an instance; of its GPUs, by their number, where it has any.

    $0 is no price: clouds list what is sold elsewhere so (capacity blocks, meters to come), and would make a job free.

    Raises:
        WrongUseError: The price is none, or it is not known how many GPUs the instance has.
    """
    if gpus is None:
        known = gpus_of(instance_type, {})
        if known is None:
            raise given.fault(
                line, f"how many GPUs {instance_type[:80]!r} has is not known; take a CSV with gpus for it"
            )
        gpus = known.gpu_count
    try:
        price = plain_usd(exact_usd(usd))
    except ValueError as fault:
        raise given.fault(line, f"got {usd[:80]!r}, {fault}") from None
    if float(price) == 0:
        given.leave_out(f"price of $0 for {visible(instance_type[:80])}")
        return
    spot = "spot" if is_spot else ""
    record: dict[str, object] = {
        "sku": ".".join(filter(None, (cloud, instance_type, zone or region, spot))),
        "component": "gpu" if gpus else "compute",
        "usd": price,
        "per": "instance_hour",
        "effective_ms": given.from_ms or round(at.timestamp() * 1000),
        "cloud": cloud,
        "instance_type": instance_type,
    }
    if gpus:
        record["gpus"] = gpus
    optional = {"region": region, "zone": zone, "purchase": spot}
    yield SourceRow(line, record | {name: text for name, text in optional.items() if text})
