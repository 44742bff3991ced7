"""A file of a bill, and who reads it: known from its first bytes, since a name may say anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import IO, Final, NamedTuple

from streams.bills.csv_lines import CsvLines
from streams.bills.json_lines import JsonLines
from streams.bills.parquet_lines import MAGIC, ParquetLines
from streams.bills.reading import Reading
from streams.errors import WrongUseError

#: First bytes of what people take for a bill.
_REFUSED: Final = {
    b"PK\x03\x04": "is a ZIP archive or an Excel workbook; let the name of an archive end in .zip, save a sheet as CSV (UTF-8)",
    b"\xd0\xcf\x11\xe0": "is an Excel workbook; save the sheet as CSV (UTF-8)",
    b"%PDF": "is a PDF; a bill is read from a file of lines: write one with the columns date,resource,usd",
    b"\x1f\x8b": "is packed with gzip; let its name end in .gz",
    b"\x28\xb5\x2f\xfd": "is packed with zstd; let its name end in .zst",
    b"<": "is HTML or XML, which a download may be if nobody was logged in; export CSV or Parquet",
    b"[": "is a JSON list; write one JSON object a line, as BigQuery exports a table",
}
_HEAD_BYTES: Final = 64
_BOM: Final = b"\xef\xbb\xbf"


class BillFile(NamedTuple):
    """A file to load."""

    name: str  # for messages, and its last part for the table
    open: Callable[[], IO[bytes]]  # unpacked


def lines_of(name: str, stream: IO[bytes], reading: Reading) -> CsvLines | JsonLines | ParquetLines:
    """The lines of an open file.

    Raises:
        WrongUseError: It is a file of another kind; says what to do.
    """
    head = refused_head(name, stream)
    if head.startswith(MAGIC):
        return ParquetLines(name, stream, reading)
    return (JsonLines if head.startswith(b"{") else CsvLines)(name, stream, reading)


def refused_head(name: str, stream: IO[bytes], begins: bytes = b"") -> bytes:
    """The first bytes of a file, without what may stand before its text; `begins`: what its own kind may begin with.

    Raises:
        WrongUseError: They are those of a file of another kind; says what to do.
    """
    peek = getattr(stream, "peek", None)
    head: bytes = peek(_HEAD_BYTES)[:_HEAD_BYTES] if peek is not None else b""
    text = head.removeprefix(_BOM).lstrip()
    for begin, said in _REFUSED.items():
        if begin != begins and (head.startswith(begin) or text.startswith(begin)):
            raise WrongUseError(f"{name}: {said}")
    return text
