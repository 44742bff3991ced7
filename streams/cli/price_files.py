"""Reads and writes files of prices for the commands."""

from __future__ import annotations

import sys
from pathlib import Path

from streams.cli.files import read_bounded, write_new
from streams.errors import WrongUseError
from streams.prices.instants import effective_ms
from streams.prices.records import PriceRecord, as_lines
from streams.prices.source import PriceList


def price_list(path: Path, cloud: str | None = None, begin: str | None = None) -> PriceList:
    """The content of a file; `begin` is a date for formats without one.

    Raises:
        WrongUseError: The file cannot be read, or `begin` is no date.
    """
    return PriceList(str(path), read_bounded(path), cloud, begin_ms(begin or ""))


def begin_ms(text: str) -> int:
    """The instant that `--from` names; 0 without one.

    Raises:
        WrongUseError: It names none.
    """
    try:
        return effective_ms(text)
    except ValueError as fault:
        raise WrongUseError(f"--from {text}: {fault}") from None


def write_records(out: Path, records: list[PriceRecord]) -> None:
    """Write the records to a new file, as a whole or not at all; `-` is stdout.

    Raises:
        WrongUseError: There is a file of this name.
        TrainfareError: It cannot be written.
    """
    if str(out) == "-":
        sys.stdout.buffer.writelines(as_lines(records))
        sys.stdout.buffer.flush()
        return
    write_new(out, lambda file: file.writelines(as_lines(records)))
