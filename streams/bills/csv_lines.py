"""Reads a bill in CSV line by line, within bounds, and refuses what is not whole."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO

from streams.bills.lines import BillLine
from streams.bills.reading import Reading
from streams.bills.text_lines import TextLines
from streams.errors import WrongUseError


class CsvLines:
    """The lines of one file; `digest` is that of the unpacked content as soon as all are read."""

    def __init__(self, name: str, stream: IO[bytes], reading: Reading) -> None:
        self._texts = TextLines(name, stream)
        self._reading = reading

    @property
    def digest(self) -> str:
        """The SHA-256 of what was read."""
        return self._texts.digest

    def __iter__(self) -> Iterator[BillLine]:
        """Yield every line, checked.

        Raises:
            WrongUseError: A line is wrong; it is named.
        """
        texts = self._texts
        records = csv.reader(texts, strict=True)
        width = 0
        while True:
            begin = texts.begin_record()
            try:
                cells = next(records)
            except StopIteration:
                break
            except csv.Error as fault:
                raise texts.refused(f"is no CSV: {fault}") from None
            if not cells:
                continue  # a blank line
            if not width:
                self._reading.begin(texts.name, f"line {begin}", cells)
                width = len(cells)
                continue
            if len(cells) != width:
                raise texts.refused(f"has {len(cells)} cells, the header {width}")
            yield from self._reading.lines(begin, f"line {begin}", cells)
        if not width:
            raise WrongUseError(f"{texts.name}: is empty; expected a bill: CSV with a header, or Parquet")
