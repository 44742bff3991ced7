"""Reads a bill in CSV line by line, within bounds, and refuses what is not whole."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import IO, Final

from streams.bills.lines import BillLine
from streams.bills.reading import Reading
from streams.bills.text_lines import TextLines
from streams.errors import WrongUseError

#: The first line by which a spreadsheet learns the separator.
_SEPARATOR: Final = ["sep=", ""]


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
        name, records = self._texts.name, csv_records(self._texts)
        header = next(records, None)
        if header is None:
            raise WrongUseError(f"{name}: is empty; expected a bill: CSV with a header, or Parquet")
        self._reading.begin(name, f"line {header[0]}", header[1])
        for begin, cells in records:
            yield from self._reading.lines(begin, f"line {begin}", cells)


def csv_records(texts: TextLines) -> Iterator[tuple[int, list[str]]]:
    """Yield the number of the line where each record begins, and its cells; the header comes first.

    What spreadsheets add is no record: a first line that names the separator, and lines of empty cells.

    Raises:
        WrongUseError: A record is no CSV, has not as many cells as the header, or repeats the header; it is named.
    """
    records = csv.reader(texts, strict=True)
    header: list[str] = []
    while True:
        begin = texts.begin_record()
        try:
            cells = next(records)
        except StopIteration:
            return
        except csv.Error as fault:
            if texts.has_bare_returns:
                raise texts.refused(
                    "ends with a carriage return alone, as files of old spreadsheets do; save it as CSV (UTF-8)"
                ) from None
            raise texts.refused(f"is no CSV: {fault}{texts.cut_off}") from None
        if not any(cells) or (not header and cells == _SEPARATOR):
            continue
        if not header:
            header = cells
        elif len(cells) != len(header):
            raise texts.refused(f"has {len(cells)} cells, the header {len(header)}{texts.cut_off}")
        elif cells == header:
            raise texts.refused(
                "repeats the header: these are several files in one; load each by its own name"
            )
        yield begin, cells
