"""The columns of the table of receipts and digests: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import MILLI, MONEY, TEXT, schema_of

RECEIPTS: Final = "receipts"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    RECEIPTS: schema_of(
        receipt_id=TEXT,
        type=TEXT,
        subject_kind=TEXT,
        subject_name=TEXT,
        owner=TEXT,  # whose addresses get it
        begins=MILLI,  # of a job its start, null: it never started; of a digest its week
        ended=MILLI,
        cost_usd=MONEY,
        lost_usd=MONEY,
        summary=TEXT,
        message=TEXT,  # the JSON that webhooks get
        time=MILLI,  # the whole minute that it was judged at
        version=pa.uint64(),
    )
}

KEYS: Final[dict[str, tuple[str, ...]]] = {RECEIPTS: ("receipt_id",)}
