"""The result of SQL: columns with their names and ClickHouse types."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class QueryResult:
    """Column-wise result; money is `decimal.Decimal`, instants are UTC."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Sequence[object], ...]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the result row by row."""
        return zip(*self.columns, strict=True)

    def records(self) -> list[dict[str, Any]]:
        """The rows as objects, by the names of their columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows()]
