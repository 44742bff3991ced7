"""Price lists and prices for the tests of this folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.prices.records import PriceRecord, format_of, records_of
from streams.prices.source import PriceFormat, PriceList

NOW_MS = 1_800_000_000_000
DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "prices"


def read(content: str, name: str = "p.csv", cloud: str | None = None, from_ms: int = 0) -> list[PriceRecord]:
    """Return the records of a list by its content."""
    given = PriceList(name, content.encode(), cloud, from_ms)
    return records_of(given, format_of(given), NOW_MS)


def read_data(name: str, cloud: str | None = None) -> tuple[PriceFormat, list[PriceRecord]]:
    """Return the records of a file of real prices; skip the test where there is none."""
    path = DATA / name
    if not path.is_file():
        pytest.skip(f"no {name}: the catalogues are not part of this checkout")
    given = PriceList(name, path.read_bytes(), cloud)
    form = format_of(given)
    return form, records_of(given, form, NOW_MS)


def price(
    sku: str,
    usd_nano: int,
    *more: int | dict[str, str],
    per: Per = Per.gpu_hour,
    component: Component = Component.gpu,
    gpus: int = 1,
) -> PriceEvent:
    """Return a revision; `more` are the ms from which it holds, 0 by default, and match fields."""
    effective_ms = sum(each for each in more if isinstance(each, int))
    fields = [each for each in more if isinstance(each, dict)]
    return PriceEvent(
        source="test",
        id=f"{sku}@{effective_ms}",
        time_ms=NOW_MS,
        sku=sku,
        component=component,
        usd_nano=usd_nano,
        per=per,
        gpus=gpus,
        effective_ms=effective_ms,
        match={name: value for each in fields for name, value in each.items()},
    )
