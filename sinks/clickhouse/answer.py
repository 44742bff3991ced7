"""Runs our own SQL and returns column names, ClickHouse types and Python values."""

from collections.abc import Mapping

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError

from sinks.answer import QueryResult


def ask(
    client: Client,
    sql: str,
    parameters: Mapping[str, object] | None,
    settings: Mapping[str, str] | None = None,
) -> QueryResult:
    """Run a read-only statement."""
    bound = dict(parameters or {})
    result = client.query(
        sql, parameters=bound, settings=dict(settings or {}), tz_mode="aware", query_tz="UTC"
    )
    names = tuple(result.column_names)
    types = tuple(column.name for column in result.column_types)
    if names:
        return QueryResult(names, types, tuple(result.result_columns))
    # The embedded engine returns an empty result without its header.
    try:
        header = client.query(f"DESCRIBE TABLE (\n{sql}\n)", parameters=bound).result_columns
    except DatabaseError:  # not a SELECT: there is no header
        return QueryResult((), (), ())
    return QueryResult(tuple(header[0]), tuple(header[1]), tuple([] for _ in header[0]))
