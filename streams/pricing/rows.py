"""Rows of the `prices` table: each revision as it was published."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from schemas.events import PriceEvent
from schemas.tables import MILLI, MONEY, PRICES, SCHEMAS


def price_table(events: Sequence[PriceEvent], version: int) -> pa.Table:
    """One row per revision; of two with one (sku, effective) the caller gives the standing one or the later version."""
    nano = np.array([[event.usd_nano, 0] for event in events], "<i8").reshape(-1, 2)
    columns = {
        "sku": [event.sku for event in events],
        "component": [str(event.component) for event in events],
        "usd": pa.Array.from_buffers(MONEY, len(events), [None, pa.py_buffer(nano.tobytes())]),
        "per": [str(event.per) for event in events],
        "gpus": pa.array([event.gpus for event in events], pa.uint32()),
        "effective": pa.array([event.effective_ms for event in events], pa.int64())
        .cast(pa.timestamp("ms"))
        .cast(MILLI),
        "match": [list(event.match.items()) for event in events],
        "source": [event.source for event in events],
        "id": [event.id for event in events],
        "time": pa.array([event.time_ms for event in events], pa.int64())
        .cast(pa.timestamp("ms"))
        .cast(MILLI),
        "version": pa.array([version] * len(events), pa.uint64()),
    }
    return pa.Table.from_pydict(columns, schema=SCHEMAS[PRICES])
