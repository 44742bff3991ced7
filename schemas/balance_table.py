"""The columns of the table of node hours whose idle time is kept ready: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import PRICED, SECOND, TEXT, schema_of

BALANCE_HOURS: Final = "balance_hours"
_USD: Final = pa.decimal128(38, 9)

SCHEMAS: Final[dict[str, pa.Schema]] = {
    BALANCE_HOURS: schema_of(
        hour=SECOND,
        node=TEXT,  # empty: all nodes of the day are there
        stamp=pa.int64(),  # of the rows that it is made from
        team=TEXT,
        **PRICED,
        paid_ms=pa.int64(),
        gpu_milli_ms=pa.int64(),
        unpriced_gpu_milli_ms=pa.int64(),
        used_gpu_milli_ms=pa.int64(),
        unattributed_gpu_ms=pa.int64(),
        node_cost_usd=_USD,
        job_cost_usd=_USD,
        idle_cost_usd=_USD,
        unattributed_cost_usd=_USD,
        overcommitted_cost_usd=_USD,
        overcommitted=pa.uint8(),  # by more than the rounding of its rows
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {BALANCE_HOURS: ("hour", "node", "stamp")}
#: What it has of `node_hour_balance`.
COLUMNS: Final = tuple(name for name in SCHEMAS[BALANCE_HOURS].names if name not in ("stamp", "version"))
