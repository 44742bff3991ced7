"""Builds the rows of the `prices` table: each revision as it was published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas.columns import instants, money
from schemas.events import PriceEvent
from schemas.tables import PRICES, SCHEMAS


def price_table(events: Sequence[PriceEvent], version: int) -> pa.Table:
    """Build one row per revision; of two with one (sku, effective) the caller passes the current one or the later version."""
    columns = {
        "sku": [event.sku for event in events],
        "component": [str(event.component) for event in events],
        "usd": money(np.array([event.usd_nano for event in events], np.int64)),
        "per": [str(event.per) for event in events],
        "gpus": pa.array([event.gpus for event in events], pa.uint32()),
        "effective": instants([event.effective_ms for event in events]),
        "match": [list(event.match.items()) for event in events],
        "source": [event.source for event in events],
        "id": [event.id for event in events],
        "time": instants([event.time_ms for event in events]),
        "version": pa.array([version] * len(events), pa.uint64()),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS[PRICES])
