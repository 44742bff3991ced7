"""Rows of every table from a few words, so that a test says only what it is about."""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa

from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore

MINUTE = datetime(2026, 3, 1, 10, 0, tzinfo=UTC)
_TEXT: dict[str, str] = {"component": "gpu", "phase": "running", "unit": "gpu_milli_ms", "job_id": "j"}


def instant(text: str) -> datetime:
    """`2026-03-01 10:00` as an instant of UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def row(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """A whole row: what is not given is a usual value."""
    return {field.name: _usual(field) for field in SCHEMAS[table]} | dict(values)


def rows(table: str, *values: Mapping[str, Any]) -> pa.Table:
    """A table to insert."""
    return pa.Table.from_pylist([row(table, each) for each in values], schema=SCHEMAS[table])


def _usual(field: pa.Field) -> Any:
    kind = field.type
    if field.nullable:
        return None
    if pa.types.is_timestamp(kind):
        return MINUTE
    if pa.types.is_decimal(kind):
        return Decimal(0)
    if pa.types.is_map(kind) or pa.types.is_list(kind):
        return []
    if pa.types.is_floating(kind):
        return 0.0
    if pa.types.is_boolean(kind):
        return False
    if pa.types.is_binary(kind):
        return b""
    if pa.types.is_string(kind):
        return _TEXT.get(field.name, "")
    return 1 if field.name in ("attempt", "version") else 0


def dicts(store: ClickHouseStore, sql: str) -> list[dict[str, Any]]:
    """What a user's query finds."""
    answer = store.ask(sql)
    return [dict(zip(answer.names, values, strict=True)) for values in answer.rows()]
