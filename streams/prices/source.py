"""A price list as it comes: its content, what the user says of it, and the rows that an adapter makes of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from schemas.escaping import visible
from streams.errors import WrongUseError
from streams.prices.offers import OfferAccount

_SHOWN_CHARS: Final = 600


class PriceFormat(StrEnum):
    """The format of a price list."""

    jsonl = "jsonl"
    json = "json"
    csv = "csv"
    opencost = "opencost"
    skypilot = "skypilot"
    aws = "aws"
    aws_spot = "aws-spot"
    azure = "azure"
    gcp = "gcp"


@dataclass(frozen=True)
class PriceList:
    """A file's content. `cloud` and `from_ms` are for formats that name neither a cloud nor a date.

    `now_ms`: what ended before is over; 0: nothing is. `offers` is what became of its entries, once they are read.
    """

    name: str
    content: bytes
    cloud: str | None = None
    from_ms: int = 0
    now_ms: int = 0
    offers: OfferAccount = field(default_factory=OfferAccount)

    def fault(self, line: int, what: str) -> WrongUseError:
        """The refusal of a line."""
        return WrongUseError(
            f"{self.name} line {line}: {visible(what[:_SHOWN_CHARS])}; nothing was published"
        )

    def text(self) -> str:
        """The content as text.

        Raises:
            WrongUseError: It is not UTF-8.
        """
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            line = self.content.count(b"\n", 0, fault.start) + 1
            byte = self.content[fault.start]
            raise self.fault(line, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None
