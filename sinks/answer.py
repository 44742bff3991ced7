"""What SQL answers: columns with their names and ClickHouse types.

It must not know a driver.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class QueryResult:
    """Columns side by side; money is `decimal.Decimal`, instants are UTC."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Sequence[object], ...]

    def rows(self) -> Iterator[tuple[object, ...]]:
        """The same, row by row."""
        return zip(*self.columns, strict=True)
