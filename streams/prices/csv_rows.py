"""Reads price lists in CSV: a header with the fields of a price, `from` as a date, one price a row."""

from __future__ import annotations

import csv
import difflib
import io
import re
from collections.abc import Iterator
from typing import Final

from schemas.events import MATCH_FIELDS
from streams.prices.instants import effective_ms
from streams.prices.offers import SourceRow
from streams.prices.source import PriceList

_INTEGERS: Final = ("effective_ms", "gpus", "time_ms")
_COLUMNS: Final = (
    *("sku", "component", "usd", "per", "gpus", "from", "effective_ms", "id", "source", "time_ms"),
    *MATCH_FIELDS,
)
_COMMENTS: Final = re.compile(r"(?:#[^\n]*(?:\n|\Z))+")
_REMARKS: Final = ("note", "notes", "comment", "comments")
_COMPONENTS: Final = {
    "gpu_hour": "gpu",
    "vcpu_hour": "compute",
    "memory_gib_hour": "compute",
    "thousand_requests": "storage",
    "gib_month": "storage",
}


def table(given: PriceList) -> Iterator[tuple[int, list[str]]]:
    """Yield the header and the rows that are not blank, trimmed, each with the number of its first line.

    Lines before the header that begin with `#` are comments.

    Raises:
        WrongUseError: It is not CSV in UTF-8.
    """
    text = given.text()
    comments = _COMMENTS.match(text)
    skipped = comments[0].count("\n") if comments else 0
    reader = csv.reader(io.StringIO(text[comments.end() :] if comments else text, newline=""), strict=True)
    begin = skipped + 1
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield begin, [cell.strip() for cell in cells]
            begin = skipped + reader.line_num + 1
    except csv.Error as fault:
        raise given.fault(max(begin, skipped + reader.line_num), f"not CSV: {fault}") from None


def of_csv(given: PriceList) -> Iterator[SourceRow]:
    """Yield the record of each row; `component` follows from `per` where the row names none.

    Raises:
        WrongUseError: The header or a row is faulty.
    """
    names: list[str] | None = None
    for line, cells in table(given):
        if names is None:
            names = _header(given, line, cells)
            continue
        if len(cells) > len(names):
            raise given.fault(line, f"more cells ({len(cells)}) than the header names ({len(names)})")
        yield SourceRow(line, _record(given, line, dict(zip(names, cells, strict=False)), "from" in names))


def _header(given: PriceList, line: int, cells: list[str]) -> list[str]:
    names = [re.sub(r"[\s-]+", "_", cell.lower()) for cell in cells]
    if len(names) == 1 and names[0].count(";") > 1:
        raise given.fault(line, "the columns are separated by `;`; save the file with commas")
    for number, name in enumerate(names, start=1):
        if name in _REMARKS:
            continue
        if name not in _COLUMNS:
            near = difflib.get_close_matches(name, _COLUMNS, n=1)
            hint = f"did you mean `{near[0]}`?" if near else f"known are {', '.join(_COLUMNS)}, note"
            raise given.fault(line, f"column {number} `{cells[number - 1][:80]}` is unknown ({hint})")
        if names.index(name) != number - 1:
            raise given.fault(line, f"column {number} `{name}` is there twice; remove one")
    for name in ("sku", "usd", "per"):
        if name not in names:
            raise given.fault(line, f"the header has no column `{name}`; see docs/prices.md")
    if "from" not in names and "effective_ms" not in names:
        raise given.fault(line, "the header has no column `from` (a date, or empty for since ever)")
    return names


def _record(given: PriceList, line: int, cells: dict[str, str], has_from: bool) -> dict[str, object]:
    record: dict[str, object] = {}
    for name, cell in cells.items():
        if cell and name not in _REMARKS and name != "from":
            number = name in _INTEGERS and cell.isascii() and cell.lstrip("-").isdigit() and len(cell) < 20
            record[name] = int(cell) if number else cell
    begin = cells.get("from", "")
    if begin and "effective_ms" in record:
        raise given.fault(line, "columns `from` and `effective_ms` both say when it begins; leave one empty")
    if has_from and "effective_ms" not in record:
        try:
            record["effective_ms"] = effective_ms(begin)
        except ValueError as fault:
            raise given.fault(line, f"column `from`: got {begin[:80]!r}; {fault}") from None
    if "component" not in record and (component := _component(record)):
        record["component"] = component
    return record


def _component(record: dict[str, object]) -> str | None:
    """What a price per this quantity is for; None for `job_hour`, which several components have."""
    per = str(record.get("per", ""))
    if "label" in record:
        return "compliance"
    if per == "instance_hour":
        return "gpu" if "gpus" in record else "compute"
    if per in ("gb", "gib"):
        return "storage" if "op" in record or "storage_class" in record else "network"
    return _COMPONENTS.get(per)
