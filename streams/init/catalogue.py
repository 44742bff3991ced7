"""The shipped catalogue: list prices of common GPUs, each with its source and the time at which it was read.

It is a starting point for a price list, small and never up to date; `catalogue.csv` is a price list itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from streams.prices.csv_rows import table
from streams.prices.opencost import plain_usd
from streams.prices.source import PriceList

FILE: Final = Path(__file__).with_name("catalogue.csv")


class CataloguePrice(NamedTuple):
    """A list price of one instance, with all that it is for; `usd` is for a GPU-hour."""

    gpu_type: str
    cloud: str
    region: str
    purchase: str
    usd: str
    source: str


@cache
def catalogue() -> Sequence[CataloguePrice]:
    """All prices, of those for one GPU the more usual cloud first."""
    rows = table(PriceList(FILE.name, FILE.read_bytes()))
    names = next(rows)[1]
    return [_price(dict(zip(names, cells, strict=True))) for _, cells in rows]


def _price(row: dict[str, str]) -> CataloguePrice:
    gpus = int(row["gpus"])
    each = plain_usd(Decimal(row["usd"]) / gpus)
    share = f" / {gpus} GPUs" if gpus > 1 else ""
    source = f"{row['instance_type']} {row['region']} {row['usd']}{share}; {row['note']}"
    return CataloguePrice(row["gpu_type"], row["cloud"], row["region"], row["purchase"], each, source)
