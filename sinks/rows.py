"""What every store can do with the rows of its tables, as a protocol.

It must not know which store it is, nor speak SQL.
"""

from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import pyarrow as pa

Value = str | int | Sequence[str] | Sequence[int]


class Condition(NamedTuple):
    """One comparison of a column; several of them hold together."""

    column: str
    op: Literal["=", "!=", "<", "<=", ">", ">=", "in"]
    value: Value


class Rows(Protocol):
    """Rows of the tables in `schemas.tables`, where of equal keys the greatest version counts."""

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Return when the rows are stored; the same token again stores nothing again.

        The token must name the content: other rows under a token already used are dropped in silence.
        Raises SinkBusy if the same call may succeed later; part of the rows may then be stored.
        """
        ...

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        """Current rows, ordered by key, in the types of `schemas.tables`; of them the first `limit`.

        Instants are compared with ms since 1970 UTC.
        """
        ...

    def newest_version(self, table: str, where: Sequence[Condition] = ()) -> int:
        """The greatest version of the rows, 0 if none fits. Conditions on key columns and shard only."""
        ...

    def delete(self, table: str, where: Sequence[Condition], *, wait: bool = True) -> None:
        """Forget rows for good, by the time it returns or (without `wait`) some time after.

        Only for bookkeeping (snapshots), never for ledger rows.
        """
        ...
