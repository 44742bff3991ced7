"""Answers to users' SQL: column names, ClickHouse types and values as Python knows them.

It must not format values for a screen, nor run SQL that the guard has not passed.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import DatabaseError


@dataclass(frozen=True)
class Answer:
    """Columns side by side; money is `decimal.Decimal`, instants are UTC."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Sequence[object], ...]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The same, row by row."""
        return zip(*self.columns, strict=True)


def ask(client: Client, sql: str, parameters: Mapping[str, object] | None) -> Answer:
    """Run a statement that only reads."""
    bound = dict(parameters or {})
    result = client.query(sql, parameters=bound, tz_mode="aware", query_tz="UTC")
    names = tuple(result.column_names)
    types = tuple(column.name for column in result.column_types)
    if names:
        return Answer(names, types, tuple(result.result_columns))
    # An empty result of the embedded engine comes without its header.
    try:
        header = client.query(f"DESCRIBE TABLE (\n{sql}\n)", parameters=bound).result_columns
    except DatabaseError:  # not a SELECT: there is no header to be had
        return Answer((), (), ())
    return Answer(tuple(header[0]), tuple(header[1]), tuple([] for _ in header[0]))
