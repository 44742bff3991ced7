"""The columns of the table of job minutes that are kept ready by day: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import SECOND, TEXT, schema_of

JOB_DAYS: Final = "job_days"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    JOB_DAYS: schema_of(
        day=SECOND,
        job_id=TEXT,  # empty: all jobs of the day are there
        attempt=pa.uint32(),
        node=TEXT,
        component=TEXT,
        sku=TEXT,
        unit=TEXT,
        stamp=pa.int64(),  # of the rows that it is made from
        quantity=pa.decimal128(38, 0),  # a sum of 64-bit numbers
        cost_usd=pa.decimal128(38, 9),
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    JOB_DAYS: ("day", "job_id", "attempt", "node", "component", "sku", "unit", "stamp"),
}
#: What it has of `job_minutes`.
COLUMNS: Final = tuple(name for name in SCHEMAS[JOB_DAYS].names if name not in ("stamp", "version"))
