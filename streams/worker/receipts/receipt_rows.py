"""Rows of `receipts`."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from schemas.columns import instants
from schemas.receipt_table import RECEIPTS, SCHEMAS
from streams.worker.ledger_judges.rule_rows import RuleRows, token, usd_column
from streams.worker.receipts.receipt import Receipt


def receipt_rows(receipts: Sequence[Receipt], version: int) -> RuleRows:
    """Build the rows of one insert."""
    columns: dict[str, object] = {
        "receipt_id": [each.receipt_id for each in receipts],
        "type": [each.type for each in receipts],
        "subject_kind": [each.subject_kind for each in receipts],
        "subject_name": [each.subject_name for each in receipts],
        "owner": [each.owner for each in receipts],
        "begins": instants([each.begins_ms for each in receipts]),
        "ended": instants([each.ended_ms for each in receipts]),
        "cost_usd": usd_column([each.cost_nano for each in receipts]),
        "lost_usd": usd_column([each.lost_nano for each in receipts]),
        "summary": [each.summary for each in receipts],
        "message": [each.message.decode() for each in receipts],
        "time": instants([each.time_ms for each in receipts]),
        "version": pa.array([version] * len(receipts), pa.uint64()),
    }
    table = pa.Table.from_pydict(columns, schema=SCHEMAS[RECEIPTS])
    return RuleRows(RECEIPTS, table, token(RECEIPTS, version, receipts))
