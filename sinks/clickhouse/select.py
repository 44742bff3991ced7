"""Builds SQL that reads and deletes rows of our own tables, with every value bound as a parameter."""

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.tables import KEYS, SCHEMAS, SNAPSHOTS
from sinks.errors import SinkError
from sinks.rows import Condition, Value

_OPS: Final = {"=": "=", "!=": "!=", "<": "<", "<=": "<=", ">": ">", ">=": ">=", "in": "IN"}


class Statement(NamedTuple):
    """SQL and the values of its `{name:Type}` parameters."""

    sql: str
    parameters: dict[str, object]


def select(
    table: str, where: Sequence[Condition], columns: Sequence[str] | None, limit: int | None = None
) -> Statement:
    """SQL for current rows, ordered by key."""
    names = SCHEMAS[table].names if columns is None else columns
    condition, parameters = _where(table, where)
    listed = ", ".join(_known(table, name) for name in names)
    order = ", ".join(f"`{name}`" for name in KEYS[table])
    first = "" if limit is None else f" LIMIT {limit:d}"
    return Statement(f"SELECT {listed} FROM {_current(table)}{condition} ORDER BY {order}{first}", parameters)  # noqa: S608 - known names, bound values


def newest_version(table: str, where: Sequence[Condition]) -> Statement:
    """SQL for the greatest version. It needs no FINAL: the greatest of all is that of the current row."""
    condition, parameters = _where(table, where)
    return Statement(f"SELECT max(version) AS newest FROM `{table}`{condition}", parameters)  # noqa: S608 - known names, bound values


def delete(table: str, where: Sequence[Condition], *, wait: bool) -> Statement:
    """SQL that deletes rows, immediately or (without `wait`) at some later time.

    Raises:
        SinkError: There is no condition.
    """
    if not where:
        raise SinkError(f"a deletion from `{table}` must say which rows")
    condition, parameters = _where(table, where)
    later = "" if wait else " SETTINGS lightweight_deletes_sync = 0"
    return Statement(f"DELETE FROM `{table}`{condition}{later}", parameters)  # noqa: S608 - known names, bound values


def _current(table: str) -> str:
    # Snapshots are plain rows that are never replaced.
    return f"`{table}`" if table == SNAPSHOTS else f"`{table}` FINAL"


def _where(table: str, where: Sequence[Condition]) -> tuple[str, dict[str, object]]:
    parameters = {f"p{number}": _as_sent(condition.value) for number, condition in enumerate(where)}
    parts = [
        f"{_known(table, condition.column)} {_OPS[condition.op]} {_bound(table, condition, number)}"
        for number, condition in enumerate(where)
    ]
    return (" WHERE " + " AND ".join(parts) if parts else ""), parameters


def _as_sent(value: Value) -> object:
    # The client writes a tuple with round brackets, which ClickHouse does not read as an array.
    return value if isinstance(value, (str, int)) else list(value)


def _bound(table: str, condition: Condition, number: int) -> str:
    bound = f"{{p{number}:{_type(condition.value)}}}"
    # Otherwise an instant would be compared in seconds.
    is_instant = pa.types.is_timestamp(SCHEMAS[table].field(condition.column).type)
    return f"fromUnixTimestamp64Milli({bound}, 'UTC')" if is_instant else bound


def _type(value: Value) -> str:
    if isinstance(value, str):
        return "String"
    if isinstance(value, int):
        return "UInt64" if value >= 2**63 else "Int64"
    if all(isinstance(item, str) for item in value):
        return "Array(String)"
    return (
        "Array(UInt64)" if any(item >= 2**63 for item in value if isinstance(item, int)) else "Array(Int64)"
    )


def _known(table: str, column: str) -> str:
    if column not in SCHEMAS[table].names:
        raise SinkError(f"`{table}` has no column `{column}`")
    return f"`{column}`"
