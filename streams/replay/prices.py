"""Builds the price book of a log whose records are no longer available, from its stored rows."""

from __future__ import annotations

import pyarrow as pa

from schemas.events import Component, PriceEvent
from schemas.tables import PRICES
from schemas.units import NANO_PER_USD, Per
from sinks.rows import Rows
from streams.engine.pricing.book import PriceBook


def stored_book(store: Rows) -> PriceBook:
    """The book of all stored revisions."""
    rows = store.select(PRICES)
    effective_ms = rows["effective"].cast(pa.int64()).to_pylist()
    time_ms = rows["time"].cast(pa.int64()).to_pylist()
    return PriceBook.empty().with_events(
        PriceEvent(
            source=row["source"],
            id=row["id"],
            time_ms=at_ms,
            sku=row["sku"],
            component=Component(row["component"]),
            usd_nano=int(row["usd"] * NANO_PER_USD),
            per=Per(row["per"]),
            gpus=row["gpus"],
            effective_ms=from_ms,
            match=dict(row["match"]),
        )
        for row, from_ms, at_ms in zip(rows.to_pylist(), effective_ms, time_ms, strict=True)
    )
