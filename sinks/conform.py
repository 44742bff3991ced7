"""Converts Arrow tables to the exact columns and types of `schemas.tables`.

A value that does not fit is an error.
"""

from collections.abc import Sequence

import pyarrow as pa

from schemas.tables import SCHEMAS
from sinks.errors import SinkError


def conform(table: str, rows: pa.Table, columns: Sequence[str] | None = None) -> pa.Table:
    """The rows with the columns (all, if None) of the table's schema, in its order and types.

    Raises:
        SinkError: The table is unknown, or the rows have other columns.
    """
    whole = SCHEMAS.get(table)
    if whole is None:
        raise SinkError(f"there is no table `{table}`")
    schema = whole if columns is None else pa.schema([whole.field(name) for name in columns])
    if rows.schema.equals(schema):
        return rows
    if set(rows.column_names) != set(schema.names):
        differing = sorted(set(rows.column_names) ^ set(schema.names))
        raise SinkError(f"rows for `{table}` do not have its columns: {', '.join(differing)}")
    return pa.Table.from_arrays([_cast(rows[field.name], field.type) for field in schema], schema=schema)


def _cast(column: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if column.type == pa.uint32() and pa.types.is_timestamp(wanted):
        # In Arrow, ClickHouse returns DateTime as seconds since 1970.
        column = column.cast(pa.int64())
    return column if column.type == wanted else column.cast(wanted)
