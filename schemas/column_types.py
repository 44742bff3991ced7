"""Column types of stored tables, and the construction of a table's schema from them."""

from typing import Final

import pyarrow as pa

from schemas.events import PRICE_FIELDS

SECOND: Final = pa.timestamp("s", "UTC")  # DateTime('UTC'): a minute's first second
MILLI: Final = pa.timestamp("ms", "UTC")  # DateTime64(3, 'UTC')
MONEY: Final = pa.decimal128(18, 9)  # Decimal(18, 9): nano-dollars
BILLED: Final = pa.decimal128(38, 18)  # Decimal(38, 18): a bill's amounts, finer than nano-dollars
COUNT: Final = pa.decimal128(18, 3)  # Decimal(18, 3): thousandths of a GPU
LABELS: Final = pa.map_(pa.string(), pa.string())
DOLLARS: Final = pa.map_(pa.string(), BILLED)  # Map(String, Decimal(38, 18)): amounts by name
OFFSETS: Final = pa.list_(pa.uint32())  # Array(UInt32)
INSTANTS: Final = pa.list_(pa.int64())  # Array(Int64): ms since 1970
NAMES: Final = pa.list_(pa.string())  # Array(String)
MEASURES: Final = pa.map_(pa.string(), pa.float64())
TEXT: Final = pa.string()
PRICED: Final = dict.fromkeys(PRICE_FIELDS, TEXT)  # what a row can be priced by
BY_SHARD: Final = {"shard": pa.uint16(), "version": pa.uint64()}  # who wrote a row; the newest version holds
BYTES: Final = pa.binary()  # a ClickHouse String that need not be UTF-8

_MAY_BE_NULL: Final = frozenset(
    {
        "started",
        "ended",
        "resolved",
        "deadline",
        "budget_usd",
        "exhausted_in_s",
        "found_usd",
        "delay_ms",
        "contracted_cost",
        "list_unit_price",
        "units_per_usd",
        "pricing_quantity",
        "consumed_quantity",
        "begins",
        "until",
        "planned_usd_per_hour",
        "ticket_since",
        "page_since",
        "quiet_since",
        "stood_since",
        "duration_ms",
    }
)


def schema_of(**columns: pa.DataType) -> pa.Schema:
    """A schema; only columns whose value may be absent are nullable."""
    return pa.schema([pa.field(name, kind, name in _MAY_BE_NULL) for name, kind in columns.items()])
