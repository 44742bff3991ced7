"""Reads a file of prices as `trainfare prices load` does."""

from __future__ import annotations

from pathlib import Path

from streams.cli.price_files import price_list
from streams.prices.records import PriceRecord, format_of, records_of


def price_records(path: Path, now_ms: int) -> list[PriceRecord]:
    """The records that would be sent."""
    given = price_list(path)
    return records_of(given, format_of(given), now_ms)
