"""A price list as it comes: its content, what the user says of it, and the rows that an adapter makes of it.

It must not validate prices: `streams.prices.records` does, for all formats.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import Final, NamedTuple

from schemas.escaping import visible
from streams.errors import WrongUseError

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


class PriceList(NamedTuple):
    """A file's content. `cloud` and `from_ms` are for formats that name neither a cloud nor a date.

    `left_out` counts entries that look like a price of a plain instance and are none, by reason; None: nobody asks.
    """

    name: str
    content: bytes
    cloud: str | None = None
    from_ms: int = 0
    left_out: Counter[str] | None = None

    def leave_out(self, reason: str) -> None:
        """Count an entry that is not read as a price."""
        if self.left_out is not None:
            self.left_out[reason] += 1

    def fault(self, line: int, what: str) -> WrongUseError:
        """Return the refusal of a line."""
        return WrongUseError(
            f"{self.name} line {line}: {visible(what[:_SHOWN_CHARS])}; nothing was published"
        )

    def text(self) -> str:
        """Return the content as text.

        Raises:
            WrongUseError: It is not UTF-8.
        """
        try:
            return self.content.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            line = self.content.count(b"\n", 0, fault.start) + 1
            byte = self.content[fault.start]
            raise self.fault(line, f"byte 0x{byte:02x} is not UTF-8; save the file as UTF-8") from None


class SourceRow(NamedTuple):
    """One price as an adapter read it: fields of a record of `prices`, not yet checked."""

    line: int
    record: dict[str, object]
