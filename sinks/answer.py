"""The result of SQL: columns with their names and ClickHouse types."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class QueryResult:
    """Column-wise result; money is `decimal.Decimal`, instants are UTC."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Sequence[object], ...]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """Yield the result row by row."""
        return zip(*self.columns, strict=True)
