"""What rows of clouds' own price documents have in common: entries with their lines, and prices of whole instances.

An on-demand price has no `purchase`, so that it also holds for what no other price does; as of SkyPilot's catalogue.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Final, NamedTuple, TypeVar

import msgspec

from streams.accounts.pages import MORE_PAGES, next_page
from streams.errors import WrongUseError
from streams.prices.instance_gpus import gpus_of
from streams.prices.offers import SourceRow, place_of
from streams.prices.opencost import exact_usd, plain_usd
from streams.prices.source import PriceList

T = TypeVar("T")
UtcInstant = Annotated[datetime, msgspec.Meta(tz=True)]
_NOTHING: Final = (b"null", b'""')
FAULTS: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def document(given: PriceList, form: type[T], what: str) -> T:
    """A document; that it is one page of several is said among its offers.

    Raises:
        WrongUseError: The file is not such a document.
    """
    try:
        found = msgspec.json.decode(given.content, type=form)
        fields = msgspec.json.decode(given.content, type=dict[str, msgspec.Raw])
    except FAULTS as fault:
        raise WrongUseError(f"{given.name}: not {what}: {fault}; nothing was published") from None
    if more := next_page({name: bytes(value) not in _NOTHING for name, value in fields.items()}):
        given.offers.missed(MORE_PAGES, f"{given.name} names another page ({more})")
    return found


def with_lines(given: PriceList, entries: Sequence[msgspec.Raw]) -> Iterator[tuple[int, bytes]]:
    """Yield entries of a document, each with the number of its first line."""
    position, line = 0, 1
    for entry in entries:
        text = bytes(entry)
        found = given.content.index(text, position)
        line += given.content.count(b"\n", position, found)
        yield line, text
        line += text.count(b"\n")
        position = found + len(text)


class InstanceOffer(NamedTuple):
    """What an offer is for, where, and how it is bought; `gpus`: None if the document does not say."""

    cloud: str
    instance_type: str
    region: str
    zone: str = ""
    purchase: str = ""
    gpus: int | None = None

    @property
    def place(self) -> str:
        """The words for it."""
        return place_of(self.instance_type, self.zone or self.region, self.purchase)

    @property
    def gpu_count(self) -> int | None:
        """How many GPUs an instance has; None if that is not known."""
        if self.gpus is not None:
            return self.gpus
        known = gpus_of(self.instance_type, {})
        return None if known is None else known.gpu_count

    @property
    def gpu_place(self) -> str:
        """The words for it if it may have GPUs, else none."""
        return "" if self.gpu_count == 0 else self.place


def counted_row(
    given: PriceList, line: int, bought: InstanceOffer, usd: str, at: datetime
) -> SourceRow | None:
    """The price of an instance; None, and counted, if it is $0 or it is not known how many GPUs it has.

    Raises:
        WrongUseError: The price is none.
    """
    if bought.gpu_count is None:
        given.offers.missed("unlisted_instance", bought.place)
        return None
    row = instance_row(given, line, bought, usd, at)
    if row is None:
        given.offers.passed("zero", bought.gpu_place)
    return row


def instance_row(
    given: PriceList, line: int, bought: InstanceOffer, usd: str, at: datetime
) -> SourceRow | None:
    """The price of an instance; of its GPUs, by their number, where it has any.

    None for $0, which is no price: clouds list what is sold elsewhere so (capacity blocks, meters to come), and it would make a job free.

    Raises:
        WrongUseError: The price is none.
    """
    gpus = bought.gpu_count or 0
    try:
        price = plain_usd(exact_usd(usd))
    except ValueError as fault:
        raise given.fault(line, f"got {usd[:80]!r}, {fault}") from None
    if float(price) == 0:
        return None
    record: dict[str, object] = {
        "sku": ".".join(
            filter(None, (bought.cloud, bought.instance_type, bought.zone or bought.region, bought.purchase))
        ),
        "component": "gpu" if gpus else "compute",
        "usd": price,
        "per": "instance_hour",
        "effective_ms": given.from_ms or round(at.timestamp() * 1000),
        "cloud": bought.cloud,
        "instance_type": bought.instance_type,
    }
    if gpus:
        record["gpus"] = gpus
    optional = {"region": bought.region, "zone": bought.zone, "purchase": bought.purchase}
    return SourceRow(line, record | {name: text for name, text in optional.items() if text})
