"""What a test asks a store, and names that are hard to ask for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from sinks.clickhouse import ClickHouseStore

ODD = (
    "plain",
    "it's; DROP TABLE jobs --",
    "back\\slash\\",
    "\\'",
    "two\nlines\tand\0nul\x7f",
    "per%cent %s %(x)s {x:String} $1 ${y}",
    "naïve ‘quotes’ “too” 日本 \u2028 🚕",  # noqa: RUF001 - ClickHouse takes typographic quotes for quotes
    "''",
    "/* */ # \x1b[31mred",
    " FORMAT JSON INTO OUTFILE 'x'",
)


def dicts(store: ClickHouseStore, sql: str) -> list[dict[str, Any]]:
    answer = store.ask(sql)
    return [dict(zip(answer.names, values, strict=True)) for values in answer.rows()]


def at(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
