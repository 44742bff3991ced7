"""Writes and reads the price list of a configuration; unlike a list that is loaded, it may be empty yet."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import Final

from schemas.escaping import visible
from schemas.events import MATCH_FIELDS, PriceEvent
from streams.prices.csv_rows import table
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList

_AMOUNTS: Final = ("usd", "per", "gpus", "from", "note")
_HEAD: Final = (
    "# A price list: docs/prices.md has its columns, `trainfare prices load prices.csv` publishes it after a change.\n"
    "# An empty cell fits all, and an empty `from` is since ever. A later price is another row with the same sku.\n"
)


def prices_csv(rows: Sequence[Mapping[str, str]], unpriced: Sequence[str]) -> str:
    """The price list; `unpriced`: lines that it lacks, as comments before its header."""
    named = {name for row in rows for name, cell in row.items() if cell}
    fields = [name for name in MATCH_FIELDS if name == "gpu_type" or name in named]
    columns = ["sku", *fields, *_AMOUNTS]
    columns += sorted(named - set(columns))
    out = io.StringIO()
    out.write(_HEAD)
    out.writelines(f"# without a price yet: {visible(line)}\n" for line in unpriced)
    # The module quotes a line feed by itself, and a carriage return only where lines end with one.
    plain, quoted = (
        csv.DictWriter(out, columns, restval="", extrasaction="ignore", lineterminator="\n", quoting=quoting)
        for quoting in (csv.QUOTE_MINIMAL, csv.QUOTE_ALL)
    )
    plain.writeheader()
    for row in rows:
        (quoted if any("\r" in cell for cell in row.values()) else plain).writerow(row)
    return out.getvalue()


def rows_in(name: str, text: str) -> list[dict[str, str]]:
    """The rows of a list in CSV, each with its cells by column.

    Raises:
        WrongUseError: It is not CSV.
    """
    names: list[str] | None = None
    found = []
    for _, cells in table(PriceList(name, text.encode())):
        if names is None:
            names = [cell.lower() for cell in cells]
        else:
            found.append(dict(zip(names, cells, strict=False)))
    return found


def prices_in(name: str, text: str, now_ms: int) -> list[PriceEvent]:
    """The prices of a list, none where it has a header alone.

    Raises:
        WrongUseError: The list has faults.
    """
    given = PriceList(name, text.encode())
    if format_of(given) == "csv" and sum(1 for _ in zip(table(given), range(2), strict=False)) < 2:
        return []
    return [record.event for record in records_of(given, format_of(given), now_ms)]
