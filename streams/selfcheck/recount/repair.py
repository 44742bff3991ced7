"""Builds the rows that replace those that a recount found wrong."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from schemas.tables import KEYS, SCHEMAS
from sinks.clickhouse.damage import LostPart
from streams.selfcheck.recount.recount import LEDGERS, VALUES, Difference, Span

_NANO_PLACES: Final = -9
#: `broken-on-start_202611_1_7_2`: the name of a part that the engine has detached.
_MONTH: Final = re.compile(r"(?:^|_)(\d{4})(\d{2})_\d+_\d+_\d+")


def rows_of(table: str, differences: Sequence[Difference], shard: int, version: int) -> pa.Table:
    """Build the correct rows of one table; a row that the log does not justify gets quantity 0.

    `version`: that of the shard's record accounting, so that later rows of the meter are newer.
    """
    schema = SCHEMAS[table]
    rows: list[dict[str, Any]] = []
    for each in differences:
        plain: dict[str, Any] = dict(zip(KEYS[table], each.key, strict=True))
        plain.update(zip(VALUES[table], each.counted or (0,) * len(VALUES[table]), strict=True))
        plain.update(shard=shard, version=version)
        rows.append({field.name: _value(field, plain[field.name]) for field in schema})
    return pa.Table.from_pylist(rows, schema=schema)


def repaired(parts: Sequence[LostPart], span: Span) -> list[LostPart]:
    """The detached parts of the ledger's tables whose whole month is in the span."""
    return [part for part in parts if part.table in LEDGERS and _is_inside(part.name, span)]


def _is_inside(name: str, span: Span) -> bool:
    found = _MONTH.search(name)
    if found is None or not 1 <= int(found[2]) <= 12:
        return False
    year, month = int(found[1]), int(found[2])
    begin = datetime(year, month, 1, tzinfo=UTC)
    end = datetime(year + month // 12, month % 12 + 1, 1, tzinfo=UTC)
    return span.from_ms <= begin.timestamp() * 1000 and end.timestamp() * 1000 <= span.until_ms


def _value(field: pa.Field, plain: Any) -> Any:
    """Convert a plain value of a key or row (see `recount.key_of`) to the type of its column."""
    if pa.types.is_timestamp(field.type):
        return pa.scalar(plain, pa.int64()).cast(field.type).as_py()
    if pa.types.is_decimal(field.type):
        return pa.scalar(plain).cast(pa.decimal128(38, 0)).as_py().scaleb(_NANO_PLACES)
    return plain
