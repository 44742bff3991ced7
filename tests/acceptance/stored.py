"""What a store holds of some jobs, in the oracle's words, so that both can be compared row by row."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.tables import JOB_MINUTES
from sinks.clickhouse import ClickHouseStore
from sinks.rows import Condition
from tests.oracle.model import FLOW_FIELDS, LedgerKey, LedgerRow


def ledger_of(store: ClickHouseStore, job_ids: Sequence[str]) -> dict[LedgerKey, LedgerRow]:
    """The current rows of `job_minutes` of these jobs; none of quantity 0."""
    rows = store.select(
        JOB_MINUTES, [Condition("job_id", "in", list(job_ids)), Condition("quantity", "!=", 0)]
    )
    columns = [
        pc.divide(pc.cast(rows["minute"], pa.int64()), 60),
        *(rows[name] for name in ("job_id", "attempt", "node", "component", "phase", "sku")),
        pc.cast(rows["price_effective"], pa.int64()),
        rows["unit"],
        *(rows[name] for name in FLOW_FIELDS),
    ]
    keys = map(LedgerKey, *(column.to_pylist() for column in columns))
    values = zip(
        rows["quantity"].to_pylist(),
        _nano(rows["cost_usd"]),
        rows["lost_quantity"].to_pylist(),
        _nano(rows["lost_cost_usd"]),
        strict=True,
    )
    return dict(zip(keys, (LedgerRow(*value) for value in values), strict=True))


def _nano(usd: pa.ChunkedArray) -> list[int]:
    """The low halves of the 128-bit decimals: nano-dollars as they are stored, all below 2**63."""
    nano: list[int] = []
    for chunk in usd.chunks:
        halves = np.frombuffer(chunk.buffers()[1], "<i8").reshape(-1, 2)
        nano.extend(halves[chunk.offset : chunk.offset + len(chunk), 0].tolist())
    return nano
