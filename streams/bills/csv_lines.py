"""Reads a bill in CSV line by line, within bounds, and refuses what is not whole."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator
from typing import IO, Final

from streams.bills.limits import BYTES_MAX, LINES_MAX
from streams.bills.lines import BillLine, BillLineReader
from streams.errors import WrongUseError

_LINE_MAX_BYTES: Final = 2**20
#: A quoted cell may go over several lines; a quote that nobody closes would go over all of them.
_LINES_PER_RECORD: Final = 1_000
_RECORD_MAX_BYTES: Final = _LINE_MAX_BYTES


class CsvLines:
    """The lines of one file; `digest` is that of the unpacked content as soon as all are read."""

    def __init__(self, name: str, stream: IO[bytes]) -> None:
        self._name = name
        self._stream = stream
        self._hash = hashlib.sha256()
        self._number = 0  # of the line that was read last
        self._begin = 1  # of the record that is being read
        self._bytes = 0
        self._begin_bytes = 0  # before that record

    def __iter__(self) -> Iterator[BillLine]:
        """Yield every line, checked.

        Raises:
            WrongUseError: A line is wrong; it is named.
        """
        records = csv.reader(self._texts(), strict=True)
        reader, width = None, 0
        while True:
            self._begin, self._begin_bytes = self._number + 1, self._bytes
            try:
                cells = next(records)
            except StopIteration:
                break
            except csv.Error as fault:
                raise self._refused(f"is no CSV: {fault}") from None
            if not cells:
                continue  # a blank line
            if reader is None:
                reader, width = BillLineReader(self._name, f"line {self._begin}", cells), len(cells)
                continue
            if len(cells) != width:
                raise self._refused(f"has {len(cells)} cells, the header {width}")
            yield reader.read(self._begin, f"line {self._begin}", cells)
        if reader is None:
            raise WrongUseError(
                f"{self._name}: is empty; expected a FOCUS bill: CSV with a header, or Parquet"
            )

    @property
    def digest(self) -> str:
        """The SHA-256 of what was read."""
        return self._hash.hexdigest()

    def _texts(self) -> Iterator[str]:
        while data := self._stream.readline(_LINE_MAX_BYTES + 1):
            self._number += 1
            self._bytes += len(data)
            self._hash.update(data)
            if len(data) > _LINE_MAX_BYTES:
                raise self._refused(f"is longer than {_LINE_MAX_BYTES} bytes", self._number)
            if self._number - self._begin >= _LINES_PER_RECORD:
                raise self._refused(
                    f"begins a record of more than {_LINES_PER_RECORD} lines: a quote is not closed"
                )
            if self._bytes - self._begin_bytes > _RECORD_MAX_BYTES:
                raise self._refused(f"begins a record of more than {_RECORD_MAX_BYTES} bytes")
            if self._bytes > BYTES_MAX or self._number > LINES_MAX:
                raise WrongUseError(
                    f"{self._name}: more than {BYTES_MAX} bytes unpacked or {LINES_MAX} lines; "
                    "split it into several files and load them in one command"
                )
            try:
                text = data.decode("utf-8-sig" if self._number == 1 else "utf-8")
            except UnicodeDecodeError as fault:
                raise self._refused(
                    f"is not UTF-8 (byte {fault.start + 1}); convert the file, or use Parquet", self._number
                ) from None
            if "\0" in text:
                raise self._refused("has a NUL character; is it UTF-16? convert it to UTF-8", self._number)
            yield text

    def _refused(self, fault: str, number: int | None = None) -> WrongUseError:
        line = self._begin if number is None else number
        return WrongUseError(f"{self._name} line {line}: {fault}; nothing of this file is loaded")
